set(nccl_sources ${CMAKE_CURRENT_SOURCE_DIR}/native/nccl)
file(GLOB nccl_files CONFIGURE_DEPENDS ${nccl_sources}/*.cpp)
# Parts of the verbs library that need no header of libibverbs.
set(nccl_shared "")
foreach(part device_description device_settings json live_objects path_file)
  list(APPEND nccl_shared native/verbs/${part}.cpp)
endforeach()

add_library(openmrc_nccl SHARED ${nccl_files} ${nccl_shared})
target_include_directories(openmrc_nccl PRIVATE native)
target_link_libraries(openmrc_nccl PRIVATE openmrc_flags openmrc_nic)
# NCCL unloads plugins, and the threads of the NIC live as long as the process.
target_link_options(openmrc_nccl PRIVATE -Wl,-z,nodelete -Wl,-z,defs
                    -Wl,--version-script=${nccl_sources}/libnccl-net.map)
set_target_properties(openmrc_nccl PROPERTIES OUTPUT_NAME nccl-net-openmrc
                      LINK_DEPENDS "${nccl_sources}/libnccl-net.map")
if(OPENMRC_BINDINGS)
  install(TARGETS openmrc_nccl LIBRARY DESTINATION openmrc/lib)
endif()
