#include "verbs/nic.hpp"

#include <net/if.h>
#include <pthread.h>
#include <sys/ioctl.h>
#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>

#include "nic/file_descriptor.hpp"
#include "nic/fork.hpp"
#include "nic/socket_address.hpp"
#include "verbs/device_settings.hpp"
#include "verbs/errors.hpp"
#include "verbs/live_objects.hpp"
#include "verbs/objects.hpp"

namespace openmrc::verbs {
namespace {

constexpr std::uint32_t kDefaultMtu = 1500;

static_assert(full_payload(4096, kWideBit, kWideBit | 6) == 8192 && full_payload(4096, kWideBit, 6) == 4096);
static_assert(full_payload(4096, 6, kWideBit) == 4096 && full_payload(2048, kWideBit, kWideBit) == 2048);

// Programs may poll memory for flags beside their data: packets do not cut a word of 8 bytes, which is visible whole.
std::uint32_t room_in(std::uint32_t mtu_bytes, AddressFamily family) {
  const std::uint32_t network = family == AddressFamily::kIpv4 ? 28 : 48;
  const std::uint32_t taken = network + kTransportBytes;
  return mtu_bytes > taken + kPayloadMtuMin ? std::min((mtu_bytes - taken) & ~7U, kPayloadMtuMax) : kPayloadMtuMin;
}

std::uint32_t mtu_of(const std::string& interface) {
  const nic::FileDescriptor any(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  ifreq request{};
  interface.copy(request.ifr_name, IFNAMSIZ - 1);
  return ::ioctl(any.get(), SIOCGIFMTU, &request) == 0 ? static_cast<std::uint32_t>(request.ifr_mtu) : kDefaultMtu;
}

std::uint64_t random_bits() {
  std::uint64_t bits = 0;
  if (::getrandom(&bits, sizeof bits, 0) != sizeof bits) throw nic::NicError(errno, "cannot draw random numbers");
  return bits;
}

}  // namespace

ibv_gid gid_of(const Address& address) {
  ibv_gid gid{};
  if (address.family == AddressFamily::kIpv6) {
    std::copy(address.bytes.begin(), address.bytes.end(), gid.raw);
  } else {
    gid.raw[10] = gid.raw[11] = 0xFF;
    std::copy_n(address.bytes.begin(), 4, gid.raw + 12);
  }
  return gid;
}

Address address_of(const ibv_gid& gid) {
  Address address;
  const bool mapped = std::all_of(gid.raw, gid.raw + 10, [](std::uint8_t b) { return b == 0; }) &&
                      gid.raw[10] == 0xFF && gid.raw[11] == 0xFF;
  if (mapped) {
    address.family = AddressFamily::kIpv4;
    std::copy_n(gid.raw + 12, 4, address.bytes.begin());
    const bool unicast = address.bytes[0] != 0 && address.bytes[0] < 224;
    return unicast ? address : Address{};
  }
  const bool zero = std::all_of(gid.raw, gid.raw + 16, [](std::uint8_t b) { return b == 0; });
  if (zero || gid.raw[0] == 0xFF) return {};
  address.family = AddressFamily::kIpv6;
  std::copy_n(gid.raw, 16, address.bytes.begin());
  return address;
}

Nic::Nic(DeviceDescription description) : description_(std::move(description)) {
  open();
  for (const nic::SocketStats& socket : device_->socket_stats()) receive_buffer_bytes_ += socket.receive_buffer_bytes;
  measure_interfaces();
  events_ = new AsyncEvents(*device_);
}

void Nic::open() {
  nic::Settings settings = settings_of(description_, random_bits());
  for (slot_ = 0; slot_ < kSlots; ++slot_) {
    try {
      settings.udp_port = static_cast<std::uint16_t>(kFirstUdpPort + slot_);
      device_ = std::make_unique<nic::Device>(settings);
      polling_ = std::make_unique<Polling>(*device_);
      return;
    } catch (const nic::NicError& error) {
      if (error.code() != EADDRINUSE || slot_ + 1 == kSlots) throw;
    }
  }
}

void Nic::measure_interfaces() {
  payload_room_ = kPayloadMtuMax;
  for (const PlaneDescription& plane : description_.planes) {
    const std::string interface = plane.interface.empty() ? interface_of(plane.local) : plane.interface;
    // The route to an own address leads over loopback, and has its MTU: only for further addresses of loopback.
    const std::uint32_t mtu = interface.empty() ? device_->path_mtu(0, plane.local, udp_port_of(0)) : mtu_of(interface);
    payload_room_ = std::min(payload_room_, room_in(mtu, plane.local.family));
    rate_bps_ += rate_of(plane);
  }
}

PeerConfig Nic::peer(const Address& first, std::uint32_t qp_number) const {
  PeerConfig peer;
  for (std::size_t plane = 0; plane < description_.planes.size(); ++plane) {
    peer.ports.push_back(peer_address(description_.planes, plane, first));
  }
  peer.udp_port = udp_port_of(qp_number);
  return peer;
}

std::uint32_t Nic::payload_room(const PeerConfig& peer) {
  std::uint32_t room = kPayloadMtuMax;
  for (std::size_t plane = 0; plane < peer.ports.size(); ++plane) {
    const std::uint32_t mtu = device_->path_mtu(static_cast<PortId>(plane), peer.ports[plane], peer.udp_port);
    room = std::min(room, room_in(mtu, peer.ports[plane].family));
  }
  return room;
}

bool Nic::draw_qp_number(std::uint32_t& number) {
  const std::lock_guard guard(mutex_);
  if (numbers_.size() >= kQpNumbers / 2 - kQpNumberMin) return false;
  const std::uint32_t process = slot_ << kSlotShift | (payload_room_ >= kPayloadMtuMax ? kWideBit : 0);
  do {
    number = process | (static_cast<std::uint32_t>(random_bits()) & (kQpNumbers - 2));
  } while ((number & (kQpNumbers - 1)) < kQpNumberMin || numbers_.contains(number));
  numbers_.insert(number);
  return true;
}

void Nic::free_qp_number(std::uint32_t number) {
  const std::lock_guard guard(mutex_);
  numbers_.erase(number);
}

DomainId Nic::next_domain() {
  const std::lock_guard guard(mutex_);
  return ++domains_;
}

namespace {

struct OpenNics {
  std::mutex mutex;
  std::map<std::string, std::shared_ptr<Nic>> nics;
};

// Never destroyed: programs call during their exit.
OpenNics& open_nics() {
  static OpenNics& made = *new OpenNics;
  return made;
}

void unlock_after_fork() {
  unlock_live_objects();
  open_nics().mutex.unlock();
  unlock_device_list();
}

int install_handlers() {
  nic::install_fork_handlers();
  return ::pthread_atfork(
      [] {
        lock_device_list();
        open_nics().mutex.lock();
        lock_live_objects();
      },
      unlock_after_fork, unlock_after_fork);
}

// Another thread may hold these locks at a fork, and the child opens the device anew. Installed while the library is loaded,
// before any thread can hold them.
[[maybe_unused]] const int installed = install_handlers();

}  // namespace

namespace {

// A program may poll its last receive completion and return from main(): without the acknowledgement, which waits for a
// reply, the peer's work would fail after all its retries.
void answer_before_exit() {
  const std::unique_lock guard(open_nics().mutex, std::try_to_lock);
  if (!guard.owns_lock()) return;
  for (const auto& [name, nic] : open_nics().nics) {
    if (nic != nullptr) nic->device().answer_before_exit();
  }
}

}  // namespace

std::shared_ptr<Nic> shared_nic(const DeviceDescription& description) {
  const std::lock_guard guard(open_nics().mutex);
  std::shared_ptr<Nic>& nic = open_nics().nics[description.name];
  if (nic != nullptr && !nic->device().closed()) return nic;
  // That of the parent is kept: it cannot be destroyed without its threads, which wait on its condition variables.
  if (nic != nullptr) new std::shared_ptr<Nic>(nic);
  nic = std::make_shared<Nic>(description);
  static const int at_exit = std::atexit([] { guarded([] { return answer_before_exit(), 0; }); });
  static_cast<void>(at_exit);
  return nic;
}

}  // namespace openmrc::verbs
