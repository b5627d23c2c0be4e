// Versions, devices and contexts.
#include <limits>

#include "mrc_api/controller.hpp"
#include "mrc_api/objects.hpp"

namespace openmrc::mrc_api {
namespace {

constexpr std::uint32_t kHintsMax = 65'535;

void store(std::uint32_t* to, std::uint32_t value) {
  if (to != nullptr) *to = value;
}

int query_device(ibv_context* context, mrc_device_attr* attr, int* supported) {
  if (context == nullptr || attr == nullptr || supported == nullptr) return EINVAL;
  *attr = {};
  *supported = 0;
  if (seam() == nullptr) return 0;
  if (!seam()->is_context(context)) return EINVAL;
  *supported = 1;
  attr->mrc_protocol_version = MRC_PROTOCOL_VERSION_1;
  attr->wimm_attr.max_wimm = attr->wimm_attr.max_wimm_dest = std::numeric_limits<std::uint16_t>::max();
  attr->mpr_attr.max_mpr = std::numeric_limits<std::uint8_t>::max();
  attr->mpr_attr.mpr_resolution = 1;
  attr->qp_attr.max_qp_hint = kHintsMax;
  attr->cap = MRC_DEVICE_CAP_TRIM_NACK | MRC_DEVICE_CAP_DYNAMIC_MPR | MRC_DEVICE_CAP_SVC_TIME;
  return 0;
}

int create_context(ibv_context* verbs, const mrc_context_attr* attr, mrc_context*& out) {
  if (verbs == nullptr) return EINVAL;
  if (seam() == nullptr) return EOPNOTSUPP;
  if (!seam()->is_context(verbs)) return EINVAL;
  auto context = std::make_unique<mrc_context>();
  if (attr != nullptr) {
    if (attr->mrc_api_version_used > MRC_API_CURRENT_VERSION) return EINVAL;
    if (attr->mrc_vendor_api_version_used > MRC_VENDOR_API_CURRENT_VERSION) return EINVAL;
    context->api_version = attr->mrc_api_version_used;
  }
  if (context->api_version == 0) context->api_version = MRC_API_CURRENT_VERSION;
  context->verbs = verbs;
  context->controller = &controller_of(verbs);
  add_live(context.get());
  out = context.release();
  return 0;
}

int destroy_context(mrc_context* context) {
  if (!is_live(context)) return EINVAL;
  if (context->children != 0) return EBUSY;
  remove_live(context);
  delete context;
  return 0;
}

}  // namespace

MRC_API int mrc_query_device(ibv_context* context, mrc_device_attr* attr, int* supported) {
  return zero_or_minus_one([&] { return query_device(context, attr, supported); });
}

MRC_API int mrc_query_device_ex(ibv_context* context, mrc_context* mcontext, mrc_device_attr* attr, int* supported) {
  return zero_or_minus_one([&] {
    if (!is_live(mcontext) || mcontext->verbs != context) return EINVAL;
    return query_device(context, attr, supported);
  });
}

MRC_API void mrc_query_version(std::uint32_t* current, std::uint32_t* last_supported, std::uint32_t* vendor,
                               std::uint32_t* last_supported_vendor) {
  store(current, MRC_API_CURRENT_VERSION);
  store(last_supported, MRC_API_LAST_SUPPORTED_VERSION);
  store(vendor, MRC_VENDOR_API_CURRENT_VERSION);
  store(last_supported_vendor, MRC_VENDOR_API_LAST_SUPPORTED_VERSION);
}

MRC_API void mrc_ctl_query_version(std::uint32_t* current, std::uint32_t* last_supported, std::uint32_t* vendor,
                                   std::uint32_t* last_supported_vendor) {
  store(current, MRC_CTL_API_CURRENT_VERSION);
  store(last_supported, MRC_CTL_API_LAST_SUPPORTED_VERSION);
  store(vendor, MRC_CTL_VENDOR_API_CURRENT_VERSION);
  store(last_supported_vendor, MRC_CTL_VENDOR_API_LAST_SUPPORTED_VERSION);
}

MRC_API mrc_context* mrc_create_context(ibv_context* verbs, mrc_context_attr* attr) {
  return made<mrc_context>([&](mrc_context*& out) { return create_context(verbs, attr, out); });
}

MRC_API int mrc_destroy_context(mrc_context* context) {
  return zero_or_minus_one([&] { return destroy_context(context); });
}

}  // namespace openmrc::mrc_api
