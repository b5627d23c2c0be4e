// The NICs of this process, one for each device that NCCL uses, opened at its first use.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "nccl/messages.hpp"
#include "nccl/net_api.hpp"
#include "nic/device.hpp"
#include "verbs/device_description.hpp"

namespace openmrc::nccl {

class Adapter {
 public:
  // Throws nic::NicError.
  explicit Adapter(verbs::DeviceDescription description);

  nic::Device& device() { return *device_; }
  const verbs::PlaneDescription& first_plane() const { return described_.planes.front(); }
  DomainId next_domain() { return ++domains_; }
  // Ports and abilities of this side; the caller adds what belongs to a QP.
  EndDescription description() const;
  // Payload of a full packet on the way to a peer: whole lines (line_placer.hpp). Throws nic::NicError if there is no route.
  std::uint32_t payload_room(const PeerConfig& peer);

  // Takes a QP to RTS. Throws Failure.
  void connect_qp(const EndDescription& own, const EndDescription& theirs, std::uint32_t payload);

 private:
  void open();

  verbs::DeviceDescription described_;
  std::unique_ptr<nic::Device> device_;
  std::atomic<DomainId> domains_{0};
  std::uint16_t udp_port_ = 0;
  std::uint64_t receive_buffer_bytes_ = 0;
  std::uint64_t rate_bps_ = 0;
};

// Reads the devices from the environment, once. Throws Failure if there is none.
void find_devices();
int device_count();
// Throws Failure: no such device.
void describe_device(int dev, ncclNetProperties_v11_t& properties);
// Number of a device with the planes of several. Throws Failure.
int merge_devices(const ncclNetVDeviceProps_t& wanted);
// Throws Failure or nic::NicError.
std::shared_ptr<Adapter> adapter_of(int dev);

Secret random_secret();
std::uint32_t random_number();

}  // namespace openmrc::nccl
