file(GLOB mrc_api_files CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/native/mrc_api/*.cpp)
set(mrc_api_sources ${CMAKE_CURRENT_SOURCE_DIR}/native/mrc_api)
# A list of its own objects, by the code of the verbs library.
add_library(openmrc_mrc_api SHARED ${mrc_api_files} native/verbs/live_objects.cpp)
target_include_directories(openmrc_mrc_api PRIVATE native include include/openmrc)
target_link_libraries(openmrc_mrc_api PRIVATE openmrc_flags openmrc_verbs ${CMAKE_DL_LIBS})
# The process keeps its objects after a dlclose().
target_link_options(openmrc_mrc_api PRIVATE -Wl,-z,nodelete -Wl,-z,defs
                    -Wl,--version-script=${mrc_api_sources}/lib_mrc.map)
# Programs of OCP link to this name. Both libraries are in one folder.
set_target_properties(openmrc_mrc_api PROPERTIES PREFIX "" OUTPUT_NAME lib_mrc NO_SONAME OFF INSTALL_RPATH "$ORIGIN"
                      LINK_DEPENDS "${mrc_api_sources}/lib_mrc.map")
if(OPENMRC_BINDINGS)
  install(TARGETS openmrc_mrc_api LIBRARY DESTINATION openmrc/lib)
  install(DIRECTORY include/openmrc DESTINATION openmrc/include FILES_MATCHING PATTERN "*.h")
  install(FILES ${mrc_api_sources}/package/openmrc.pc DESTINATION openmrc/lib/pkgconfig)
  install(FILES ${mrc_api_sources}/package/openmrc-config.cmake DESTINATION openmrc/lib/cmake/openmrc)
endif()
