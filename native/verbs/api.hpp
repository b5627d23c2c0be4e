// The verbs API as its headers declare it, without the macros that hide functions behind inline wrappers.
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#undef ibv_query_port
#undef ibv_reg_mr
#undef ibv_reg_mr_iova
#undef ibv_get_device_list

// A function that programs link against; libibverbs.map gives it its version node.
#define VERBS_API extern "C" __attribute__((visibility("default")))
