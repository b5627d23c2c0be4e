// Contexts: opening a device, and its attributes.
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "verbs/errors.hpp"
#include "verbs/live_objects.hpp"
#include "verbs/objects.hpp"

namespace openmrc::verbs {
namespace {

constexpr int kGidIndices = 4;  // NCCL and OCP's programs use index 3; all of them name the one address
constexpr std::uint32_t kDefaultPartition = 0xFFFF;

ibv_mtu mtu_at_most(std::uint32_t payload) {
  return static_cast<ibv_mtu>(std::countr_zero(path_mtu_at_most(payload) / 128));
}
static_assert(path_mtu_at_most(8192) == 4096 && path_mtu_at_most(1428) == 1024 && path_mtu_at_most(300) == 256);

// Width and speed in the units of InfiniBand, whose product is the rate or the largest below it.
void describe_rate(std::uint64_t bps, ibv_port_attr& port) {
  struct Speed {
    std::uint64_t lane_bps;
    std::uint8_t code;
  };
  constexpr std::array<Speed, 5> kSpeeds{
      {{50'000'000'000, 64}, {25'000'000'000, 32}, {10'000'000'000, 4}, {5'000'000'000, 2}, {2'500'000'000, 1}}};
  struct Width {
    std::uint64_t lanes;
    std::uint8_t code;
  };
  constexpr std::array<Width, 4> kWidths{{{1, 1}, {4, 2}, {8, 4}, {12, 8}}};
  std::uint64_t best = 0;
  port.active_width = 1;
  port.active_speed = 1;
  for (const Speed& speed : kSpeeds) {
    for (const Width& width : kWidths) {
      const std::uint64_t rate = speed.lane_bps * width.lanes;
      if (rate > bps || rate <= best) continue;
      best = rate;
      port.active_speed = speed.code;
      port.active_width = width.code;
    }
  }
}

// Programs may close a device before they destroy its objects, or never destroy them: these still refer to the context,
// which is freed without objects only.
void close_context(Context* context) {
  context->nic->events().remove(context->api.context);
  if (context->api.context.async_fd >= 0) ::close(context->api.context.async_fd);
  if (context->children == 0) delete context;
}

int open_context(ibv_device* device, Context*& out) {
  ListedDevice* found = find_device(device);
  if (found == nullptr) return ENODEV;
  auto context = std::make_unique<Context>();
  context->nic = shared_nic(found->description);
  context->device = found;
  verbs_context& api = context->api;
  api.sz = sizeof api;
  api.query_port = query_port;
  api.query_device_ex = query_device_ex;
  api.create_cq_ex = create_cq_ex;
  api.create_qp_ex = create_qp_ex;
  api.create_srq_ex = create_srq_ex;
  api.get_srq_num = get_srq_num;
  api.context.abi_compat = __VERBS_ABI_IS_EXTENDED;
  api.context.device = device;
  api.context.cmd_fd = -1;
  api.context.num_comp_vectors = 1;
  api.context.ops.poll_cq = poll_cq;
  api.context.ops.req_notify_cq = req_notify_cq;
  api.context.ops.post_send = post_send;
  api.context.ops.post_recv = post_recv;
  api.context.ops.post_srq_recv = post_srq_recv;
  ::pthread_mutex_init(&api.context.mutex, nullptr);
  api.context.async_fd = ::eventfd(0, EFD_CLOEXEC | EFD_SEMAPHORE);
  if (api.context.async_fd < 0) return errno;
  context->nic->events().add(api.context);
  out = context.release();
  add_live(out);
  return 0;
}

int query_attributes(Nic& nic, ibv_device* device, ibv_device_attr& to) {
  to = {};
  std::strncpy(to.fw_ver, "openmrc", sizeof to.fw_ver - 1);
  to.node_guid = to.sys_image_guid = ibv_get_device_guid(device);
  to.max_mr_size = ~std::uint64_t{0};
  to.page_size_cap = 0xFFFFF000;
  to.max_qp = static_cast<int>(kQpNumbers / 2 - kQpNumberMin);
  to.max_qp_wr = static_cast<int>(kWrMax);
  to.max_sge = to.max_sge_rd = static_cast<int>(kSgeMax);
  to.max_cq = 1 << 16;
  to.max_cqe = kCqeMax;
  to.max_mr = 1 << 24;
  to.max_pd = 1 << 24;
  to.atomic_cap = IBV_ATOMIC_HCA;
  to.max_qp_rd_atom = to.max_qp_init_rd_atom = kReadsMax;
  to.max_res_rd_atom = to.max_qp * kReadsMax;
  to.max_srq = 1 << 16;
  to.max_srq_wr = static_cast<int>(kSrqWrMax);
  to.max_srq_sge = static_cast<int>(kSgeMax);
  to.max_pkeys = 1;
  to.local_ca_ack_delay = 15;
  to.phys_port_cnt = 1;
  to.device_cap_flags = IBV_DEVICE_CURR_QP_STATE_MOD | IBV_DEVICE_SYS_IMAGE_GUID | IBV_DEVICE_SRQ_RESIZE;
  return nic.device().closed() ? EIO : 0;
}

// The GID of an index, or an error.
int find_gid(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid& gid) {
  if (context == nullptr || port != 1 || index >= kGidIndices) return EINVAL;
  gid = Context::of(context).nic->gid();
  return 0;
}

// Entries grow in later versions of the API: a caller may know fewer members.
template <typename Entry>
void store(const Entry& entry, void* to, std::size_t size) {
  std::memset(to, 0, size);
  std::memcpy(to, &entry, std::min(size, sizeof entry));
}

ibv_gid_entry gid_entry(Context& context, std::uint32_t index) {
  ibv_gid_entry entry{};
  entry.gid = context.nic->gid();
  entry.gid_index = index;
  entry.port_num = 1;
  entry.gid_type = IBV_GID_TYPE_ROCE_V2;
  return entry;
}

}  // namespace

int query_port(ibv_context* context, std::uint8_t port_number, ibv_port_attr* attributes, std::size_t size) {
  if (port_number != 1 || attributes == nullptr) return EINVAL;
  return guarded([&] {
    Nic& nic = *Context::of(context).nic;
    const PortMask up = nic.device().look([](const Engine& engine) { return engine.ports_up(); });
    ibv_port_attr port{};
    port.state = up != 0 ? IBV_PORT_ACTIVE : IBV_PORT_DOWN;
    port.phys_state = up != 0 ? 5 : 3;  // LinkUp, Disabled
    port.max_mtu = IBV_MTU_4096;
    port.active_mtu = mtu_at_most(nic.payload_room());
    port.gid_tbl_len = 1;
    port.pkey_tbl_len = 1;
    port.port_cap_flags = IBV_PORT_CM_SUP | IBV_PORT_IP_BASED_GIDS;
    port.max_msg_sz = static_cast<std::uint32_t>(kMessageBytesMax);
    port.max_vl_num = 1;
    port.link_layer = IBV_LINK_LAYER_ETHERNET;
    describe_rate(nic.rate_bps(), port);
    store(port, attributes, size);
    return 0;
  });
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input* input, ibv_device_attr_ex* attributes,
                    std::size_t size) {
  if (input != nullptr && input->comp_mask != 0) return EINVAL;
  if (attributes == nullptr || size < sizeof attributes->orig_attr) return EINVAL;
  return guarded([&] {
    std::memset(static_cast<void*>(attributes), 0, size);
    if (size >= offsetof(ibv_device_attr_ex, phys_port_cnt_ex) + sizeof attributes->phys_port_cnt_ex) {
      attributes->phys_port_cnt_ex = 1;
    }
    return query_attributes(*Context::of(context).nic, context->device, attributes->orig_attr);
  });
}

VERBS_API ibv_context* ibv_open_device(ibv_device* device) {
  Context* context = made<Context>([&](Context*& out) { return open_context(device, out); });
  return context == nullptr ? nullptr : &context->api.context;
}

VERBS_API int ibv_close_device(ibv_context* api) {
  if (api == nullptr || !is_live(&Context::of(api))) {
    errno = EINVAL;
    return -1;
  }
  remove_live(&Context::of(api));
  close_context(&Context::of(api));
  return 0;
}

VERBS_API int ibv_query_device(ibv_context* context, ibv_device_attr* attributes) {
  if (context == nullptr || attributes == nullptr) return EINVAL;
  return guarded([&] { return query_attributes(*Context::of(context).nic, context->device, *attributes); });
}

// The function of the first version of the API, whose structure ends before `port_cap_flags2`.
VERBS_API int ibv_query_port(ibv_context* context, std::uint8_t port_number, _compat_ibv_port_attr* attributes) {
  if (context == nullptr) return EINVAL;
  return query_port(context, port_number, reinterpret_cast<ibv_port_attr*>(attributes),
                    offsetof(ibv_port_attr, port_cap_flags2));
}

VERBS_API int ibv_query_gid(ibv_context* context, std::uint8_t port_number, int index, ibv_gid* gid) {
  if (gid == nullptr || index < 0 || find_gid(context, port_number, static_cast<std::uint32_t>(index), *gid) != 0) {
    errno = EINVAL;
    return -1;
  }
  return 0;
}

VERBS_API int _ibv_query_gid_ex(ibv_context* context, std::uint32_t port, std::uint32_t index, ibv_gid_entry* entry,
                                std::uint32_t flags, std::size_t entry_size) {
  ibv_gid gid{};
  if (entry == nullptr || flags != 0) return EINVAL;
  if (find_gid(context, port, index, gid) != 0) return port == 1 ? ENODATA : EINVAL;
  store(gid_entry(Context::of(context), index), entry, entry_size);
  return 0;
}

VERBS_API ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, std::size_t count_max,
                                       std::uint32_t flags, std::size_t entry_size) {
  if (context == nullptr || entries == nullptr || flags != 0 || count_max == 0) return -EINVAL;
  store(gid_entry(Context::of(context), 0), entries, entry_size);
  return 1;
}

VERBS_API int ibv_query_gid_type(ibv_context* context, std::uint8_t port, unsigned int index, unsigned int* type) {
  ibv_gid gid{};
  if (type == nullptr || find_gid(context, port, index, gid) != 0) {
    errno = EINVAL;
    return -1;
  }
  *type = 1;  // RoCE v2: the numbering of the kernel, not that of ibv_gid_type
  return 0;
}

VERBS_API int ibv_query_pkey(ibv_context* context, std::uint8_t port, int index, __be16* pkey) {
  if (context == nullptr || pkey == nullptr || port != 1 || index != 0) {
    errno = EINVAL;
    return -1;
  }
  *pkey = static_cast<__be16>(kDefaultPartition);
  return 0;
}

VERBS_API int ibv_get_pkey_index(ibv_context* context, std::uint8_t port, __be16 pkey) {
  if (context != nullptr && port == 1 && (pkey & 0x7FFF) == 0x7FFF) return 0;
  errno = EINVAL;
  return -1;
}

}  // namespace openmrc::verbs
