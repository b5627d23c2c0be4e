// Transport over a device's QPs. Small messages travel in slots of the peer's mailbox, and each side keeps account of what
// it has taken from the other. Large ones are written straight into the peer's buffers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "collectives/executor_settings.hpp"
#include "collectives/mailbox.hpp"
#include "collectives/transport.hpp"
#include "nic/device.hpp"

namespace openmrc::collectives {

// Receives that a QP needs beyond `recv_depth`, for accounts.
inline constexpr std::uint32_t kCreditReceives = 32;

class QpTransport final : public Transport {
 public:
  // `cq` takes the completions of all QPs that connect() names.
  QpTransport(std::shared_ptr<nic::Device> device, CqId cq, const ExecutorSettings& settings);
  ~QpTransport() override;

  std::uint64_t mailbox_address() { return reinterpret_cast<std::uintptr_t>(mailbox_.base()); }
  // By rank: none may write where another one's messages arrive.
  const std::vector<std::uint32_t>& mailbox_rkeys() const { return mailbox_keys_; }
  // One QP per lane, in RTS; posts their receives.
  void connect(std::uint16_t rank, std::span<const std::uint32_t> qps, std::uint64_t mailbox_address,
               std::uint32_t mailbox_rkey);

  bool put(std::uint16_t rank, std::uint8_t lane, const MessageHead& head, const void* data, bool urgent) override;
  Sending send(std::uint16_t rank, std::uint8_t lane, const LargeMessage& message) override;
  void retry() override;
  Arrivals poll() override;
  void replenish() override;
  void make_room(std::uint16_t rank) override;
  bool enlist(const Memory& memory, bool peers_write, std::uint32_t& key,
              const std::shared_ptr<Placer>& placer) override;
  bool delist(std::uint32_t key) override;
  bool arm(Sleeper sleeper) override;
  void disarm(Sleeper sleeper) override;
  int descriptor(Sleeper sleeper) const override;
  void clear(Sleeper sleeper) override;
  std::uint32_t progress() override;
  std::uint32_t await(nic::TimeNs longest, int also) override;
  void attend(nic::TimeNs span) override;
  bool attended() const override;
  void rest() override;
  void stop(std::uint16_t rank) override;
  bool flushed() const override;
  bool closed() const override;
  void leave_to_parent() override;
  void add_to(ExecutorStats& stats) const override;

 private:
  // A QP to a peer.
  struct Lane {
    std::uint32_t qp = 0;
    std::uint8_t number = 0;
    std::uint64_t slots_sent = 0, immediates_sent = 0;    // towards the peer
    std::uint64_t slots_taken = 0, immediates_taken = 0;  // of what the peer sent
    Credit told;
    std::uint32_t credit_cell = 0;
    // Slots that the peer is not to have back yet: with their messages, too much is held for it.
    std::uint64_t withheld = 0;
    std::uint32_t receives_owed = 0;
    std::uint64_t posted = 0, completed = 0;
    std::deque<SendWr> backlog;  // the QP's queue was full
  };
  struct Peer {
    std::uint16_t rank = 0;
    bool connected = false, failed = false;
    std::uint64_t mailbox_address = 0;
    std::uint32_t mailbox_rkey = 0;
    std::vector<Lane> lanes;
  };

  void handle(const Completion& done);
  void handle_immediate(Peer& peer, Lane& lane, std::uint32_t immediate, std::uint64_t bytes);
  void handle_message(Peer& peer, Lane& lane, std::uint32_t slot);
  void check_credit(const Peer& peer, const Lane& lane);
  void give_back(Peer& peer, Lane& lane);
  void post_receives(std::uint32_t owed);
  bool may_send(const Peer& peer, const Lane& lane, const Credit& credit) const;
  void post(Lane& lane, const SendWr& wr);
  bool offer(Lane& lane, const SendWr& wr);
  void take_back(Lane& lane, std::uint64_t wr_id, bool arrived);

  std::shared_ptr<nic::Device> device_;
  CqId cq_;
  int cq_fd_;
  std::shared_ptr<std::atomic<bool>> takeover_;
  ExecutorSettings settings_;
  Mailbox mailbox_, outbox_;
  std::vector<std::uint32_t> mailbox_keys_;  // by rank
  std::uint32_t outbox_key_ = 0;
  std::vector<Peer> peers_;
  std::map<std::uint32_t, std::pair<std::uint16_t, std::uint8_t>> by_qp_;  // rank, lane
  std::array<Completion, 64> done_;  // reused: constructing it took longer than an empty look
  std::size_t backlogs_ = 0;         // lanes that have one
  std::uint64_t slot_messages_ = 0, direct_messages_ = 0;
  bool lost_ = false;  // to the process that this one was forked from
};

}  // namespace openmrc::collectives
