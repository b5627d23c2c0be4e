set(rdmacm_sources ${CMAKE_CURRENT_SOURCE_DIR}/native/rdmacm)
file(GLOB rdmacm_files CONFIGURE_DEPENDS ${rdmacm_sources}/*.cpp)

add_library(openmrc_rdmacm SHARED ${rdmacm_files})
target_include_directories(openmrc_rdmacm PRIVATE native)
target_link_libraries(openmrc_rdmacm PRIVATE openmrc_flags openmrc_verbs Threads::Threads)
# Its thread may outlive a dlclose().
target_link_options(openmrc_rdmacm PRIVATE -Wl,-z,nodelete -Wl,-z,defs
                    -Wl,--version-script=${rdmacm_sources}/librdmacm.map)
# The libibverbs beside it, and no path of the machine that built it.
set_target_properties(openmrc_rdmacm PROPERTIES OUTPUT_NAME rdmacm SOVERSION 1 BUILD_WITH_INSTALL_RPATH ON
                      INSTALL_RPATH "$ORIGIN" LINK_DEPENDS "${rdmacm_sources}/librdmacm.map")
if(OPENMRC_BINDINGS)
  install(FILES $<TARGET_FILE:openmrc_rdmacm> DESTINATION openmrc/lib RENAME librdmacm.so.1)
endif()
