set(verbs_sources ${CMAKE_CURRENT_SOURCE_DIR}/native/verbs)
set(verbs_private ${CMAKE_CURRENT_BINARY_DIR}/verbs/private_nodes.cpp)
file(GLOB verbs_files CONFIGURE_DEPENDS ${verbs_sources}/*.cpp)

# Every function of the list in every version node that a release of rdma-core had.
file(STRINGS ${verbs_sources}/private_functions.txt verbs_functions REGEX "^[^#]")
set(SYMBOLS "")
foreach(NODE 34 57 59 64 65)
  foreach(line ${verbs_functions})
    string(REPLACE "@NODE@" "${NODE}" line "${line}")
    string(REPLACE " " ";" words "${line}")
    list(GET words 0 name)
    list(GET words 1 kind)
    string(APPEND SYMBOLS "  \".globl ${name}__${NODE}\\n.set ${name}__${NODE}, openmrc_${kind}\\n\"\n"
                          "  \".symver ${name}__${NODE}, ${name}@IBVERBS_PRIVATE_${NODE}\\n\"\n")
  endforeach()
endforeach()
configure_file(${verbs_sources}/private_nodes.cpp.in ${verbs_private} @ONLY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${verbs_sources}/private_functions.txt)

add_library(openmrc_verbs SHARED ${verbs_files} ${verbs_private})
# Assembly at file scope names symbols that link-time optimisation cannot see.
set_source_files_properties(${verbs_private} PROPERTIES COMPILE_OPTIONS "-fno-lto")
target_include_directories(openmrc_verbs PRIVATE native)
target_link_libraries(openmrc_verbs PRIVATE openmrc_flags openmrc_nic)
# Its threads may outlive a dlclose().
target_link_options(openmrc_verbs PRIVATE -Wl,-z,nodelete -Wl,-z,defs
                    -Wl,--version-script=${verbs_sources}/libibverbs.map)
set_target_properties(openmrc_verbs PROPERTIES OUTPUT_NAME ibverbs SOVERSION 1
                      LINK_DEPENDS "${verbs_sources}/libibverbs.map")
if(OPENMRC_BINDINGS)
  # A wheel holds no symbolic links: the file itself has the name that programs ask for.
  install(FILES $<TARGET_FILE:openmrc_verbs> DESTINATION openmrc/lib RENAME libibverbs.so.1)
endif()
