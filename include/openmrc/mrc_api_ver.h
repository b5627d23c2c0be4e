/* Version of the application API that a program is compiled for. */
#ifndef OPENMRC_MRC_API_VER_H
#define OPENMRC_MRC_API_VER_H

#define MRC_API_VER_MAJOR_OFFSET 24
#define MRC_API_VER_MINOR_OFFSET 16
#define MRC_API_VER_SUBMINOR_OFFSET 0

#define MRC_API_VER(major, minor, subminor)                                               \
  (((major) << MRC_API_VER_MAJOR_OFFSET) | ((minor) << MRC_API_VER_MINOR_OFFSET) |        \
   ((subminor) << MRC_API_VER_SUBMINOR_OFFSET))

/* Stands for the current version, whichever that is. */
#define MRC_API_VER_LATEST MRC_API_VER(0xFFU, 0xFFU, 0xFFFFU)
#define MRC_API_CURRENT_VERSION MRC_API_VER(1, 0, 1)
#define MRC_API_LAST_SUPPORTED_VERSION MRC_API_VER(0, 0, 0)

/* A program may define MRC_API_VER_USED before it includes the header. */
#ifndef MRC_API_VER_USED
#define MRC_API_VER_USED MRC_API_CURRENT_VERSION
#elif MRC_API_VER_USED == MRC_API_VER_LATEST
#undef MRC_API_VER_USED
#define MRC_API_VER_USED MRC_API_CURRENT_VERSION
#endif
#if MRC_API_VER_USED > MRC_API_CURRENT_VERSION
#error "MRC_API_VER_USED: at most MRC_API_CURRENT_VERSION is supported"
#endif

/* The extensions of a vendor have versions of their own. openmrc has no such extensions. */
#define MRC_VENDOR_API_CURRENT_VERSION MRC_API_VER(1, 0, 0)
#define MRC_VENDOR_API_LAST_SUPPORTED_VERSION MRC_API_VER(0, 0, 0)
#ifndef MRC_VENDOR_API_VER_USED
#define MRC_VENDOR_API_VER_USED MRC_VENDOR_API_CURRENT_VERSION
#elif MRC_VENDOR_API_VER_USED == MRC_API_VER_LATEST
#undef MRC_VENDOR_API_VER_USED
#define MRC_VENDOR_API_VER_USED MRC_VENDOR_API_CURRENT_VERSION
#endif
#if MRC_VENDOR_API_VER_USED > MRC_VENDOR_API_CURRENT_VERSION
#error "MRC_VENDOR_API_VER_USED: at most MRC_VENDOR_API_CURRENT_VERSION is supported"
#endif

#endif
