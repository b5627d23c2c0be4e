# Beside the libibverbs: programs look for files of its devices.
add_library(openmrc_device_files SHARED native/preload/device_files.cpp)
target_link_libraries(openmrc_device_files PRIVATE openmrc_flags ${CMAKE_DL_LIBS})
target_link_options(openmrc_device_files PRIVATE -Wl,-z,nodelete -Wl,-z,defs)
set_target_properties(openmrc_device_files PROPERTIES OUTPUT_NAME openmrc-device-files)
if(OPENMRC_BINDINGS)
  install(TARGETS openmrc_device_files LIBRARY DESTINATION openmrc/lib)
endif()
