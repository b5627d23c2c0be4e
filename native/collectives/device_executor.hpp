// The executor of a rank with a device: over QPs, and through shared memory between ranks on one host.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "collectives/executor.hpp"
#include "collectives/qp_transport.hpp"
#include "collectives/shared_transport.hpp"

namespace openmrc::collectives {

class DeviceExecutor final : public Executor {
 public:
  // `cq` takes the completions of all QPs that connect() names.
  DeviceExecutor(std::shared_ptr<nic::Device> device, CqId cq, const ExecutorSettings& settings)
      : Executor(std::make_unique<QpTransport>(std::move(device), cq, settings),
                 std::make_unique<SharedTransport>(settings), settings),
        qps_(static_cast<QpTransport&>(transports().remote())),  // as made above
        shared_(static_cast<SharedTransport&>(transports().local())) {}

  // See QpTransport.
  std::uint64_t mailbox_address() { return qps_.mailbox_address(); }
  const std::vector<std::uint32_t>& mailbox_rkeys() const { return qps_.mailbox_rkeys(); }
  void connect(std::uint16_t rank, std::span<const std::uint32_t> qps, std::uint64_t mailbox_address,
               std::uint32_t mailbox_rkey) {
    const auto guard = enter();
    qps_.connect(rank, qps, mailbox_address, mailbox_rkey);
  }

  // See SharedTransport. Without memory the QPs remain.
  std::optional<SharedOffer> offer_memory(std::uint16_t rank) {
    const auto guard = enter();
    return shared_.offer(rank);
  }
  bool open_memory(std::uint16_t rank, const SharedOffer& offer) {
    const auto guard = enter();
    return shared_.open(rank, offer);
  }
  void use_memory(std::uint16_t rank, bool agreed) {
    {
      const auto guard = enter();
      shared_.use(rank, agreed);
    }
    if (agreed) use_local(rank);
  }

 private:
  QpTransport& qps_;
  SharedTransport& shared_;
};

}  // namespace openmrc::collectives
