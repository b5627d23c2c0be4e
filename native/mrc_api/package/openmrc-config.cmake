# Target openmrc::mrc: the MRC API. libibverbs is the distribution's at build time; `openmrc run` replaces it.
get_filename_component(_openmrc_prefix "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
find_library(OPENMRC_IBVERBS ibverbs)
find_path(OPENMRC_IBVERBS_INCLUDE infiniband/verbs.h)
if(NOT OPENMRC_IBVERBS OR NOT OPENMRC_IBVERBS_INCLUDE)
  set(openmrc_FOUND FALSE)
  set(openmrc_NOT_FOUND_MESSAGE "libibverbs and its headers are missing (Debian: libibverbs-dev)")
  return()
endif()
if(NOT TARGET openmrc::mrc)
  add_library(openmrc::mrc SHARED IMPORTED)
  set_target_properties(openmrc::mrc PROPERTIES
    IMPORTED_LOCATION "${_openmrc_prefix}/lib/lib_mrc.so"
    IMPORTED_SONAME lib_mrc.so
    INTERFACE_INCLUDE_DIRECTORIES "${_openmrc_prefix}/include/openmrc;${OPENMRC_IBVERBS_INCLUDE}"
    INTERFACE_LINK_LIBRARIES "${OPENMRC_IBVERBS}")
endif()
