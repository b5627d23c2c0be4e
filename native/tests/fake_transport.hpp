// A transport without a device: records what is sent, and hands over what the test lets arrive.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "collectives/transport.hpp"

namespace openmrc::collectives::test {

class FakeTransport final : public Transport {
 public:
  struct Sent {
    std::uint16_t rank = 0;
    MessageHead head;
    std::vector<std::uint8_t> data;
    bool urgent = false;
  };
  using Arrival = std::function<void(TransportReceiver&)>;

  using Transport::Transport;

  void arrives(Arrival arrival) { arrivals.push_back(std::move(arrival)); }

  bool put(std::uint16_t rank, std::uint8_t, const MessageHead& head, const void* data, bool urgent) override {
    std::size_t& from = room == 0 && urgent ? kept : room;
    if (from == 0) return false;
    --from;
    const auto* bytes = static_cast<const std::uint8_t*>(data);
    messages_sent.push_back({.rank = rank, .head = head, .data = {bytes, bytes + head.bytes}, .urgent = urgent});
    return true;
  }
  Sending send(std::uint16_t, std::uint8_t, const LargeMessage& message) override {
    if (room == 0) return Sending::kNoRoom;
    --room;
    large_sent.push_back(message);
    return traits().in_place ? Sending::kPosted : Sending::kSent;
  }
  Arrivals poll() override {
    if (arrivals.empty()) return Arrivals::kSome;  // perhaps there is room
    for (const Arrival& arrival : std::exchange(arrivals, {})) {
      count_message();
      arrival(receiver());
    }
    return Arrivals::kMore;
  }
  void make_room(std::uint16_t) override { ++rooms_made; }
  bool enlist(const Memory&, bool peers_write, std::uint32_t& key, const std::shared_ptr<Placer>& placer) override {
    if (placer != nullptr) placers.push_back(placer);
    if (keys_left == 0) return false;
    key = peers_write ? 20 + keys_left-- : 10 + keys_left--;
    ++keys_in_use;
    return true;
  }
  bool delist(std::uint32_t) override {
    --keys_in_use;
    return true;
  }
  bool arm(Sleeper) override { return false; }
  void disarm(Sleeper) override {}
  int descriptor(Sleeper) const override { return -1; }
  void clear(Sleeper) override {}
  std::uint32_t await(nic::TimeNs longest, int) override {
    std::this_thread::sleep_for(std::chrono::nanoseconds(longest));
    return 0;
  }
  void stop(std::uint16_t rank) override { stopped.push_back(rank); }
  void leave_to_parent() override {}
  void add_to(ExecutorStats& stats) const override { stats.slot_messages += messages_sent.size(); }

  std::size_t room = 1000;  // messages that may still go
  std::size_t kept = 0;     // and urgent ones, without room
  std::uint32_t keys_left = 8, keys_in_use = 0, rooms_made = 0;
  std::vector<Sent> messages_sent;
  std::vector<LargeMessage> large_sent;
  std::vector<std::shared_ptr<Placer>> placers;
  std::vector<std::uint16_t> stopped;
  std::vector<Arrival> arrivals;
};

inline constexpr Transport::Traits kInPlace{.in_place = true, .local = false, .overtaking = true, .accounts = true};
inline constexpr Transport::Traits kInParts{.in_place = false, .local = true, .overtaking = false, .accounts = false};

}  // namespace openmrc::collectives::test
