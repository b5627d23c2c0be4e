// The work of the simulated hosts: sends and computations with dependencies. Every dependency is local to the waiting
// host, so that hosts can run in parallel; events elsewhere reach a host only through a message.
#pragma once

#include <cstdint>
#include <queue>
#include <utility>
#include <vector>

#include "engine/base/time.hpp"
#include "netsim/simulate/endpoint.hpp"

namespace openmrc::netsim {

enum class OpKind : std::uint8_t { kSend = 0, kCompute = 1 };
enum class OpEvent : std::uint8_t {
  kCompleted = 0,  // a computation is over, or a send of this host is acknowledged
  kReceived = 1,   // a send to this host has arrived
};

struct Op {
  OpKind kind{};
  std::uint32_t host = 0;
  std::uint32_t peer = 0;  // receiver of a send
  std::uint64_t bytes = 0;
  TimePs duration = 0;  // of a computation
  TimePs earliest = 0;
};

struct Dependency {
  std::uint32_t op = 0;  // waits
  std::uint32_t on = 0;
  OpEvent event{};
};

// A list of numbers for each of many keys, in two arrays.
class Lists {
 public:
  Lists() = default;
  // `pairs`: (key, value); the values of a key keep their order.
  Lists(std::uint32_t keys, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs);
  std::pair<const std::uint32_t*, const std::uint32_t*> of(std::uint32_t key) const {
    return {values_.data() + begins_[key], values_.data() + begins_[key + 1]};
  }
  bool empty() const { return values_.empty(); }

 private:
  std::vector<std::uint64_t> begins_;
  std::vector<std::uint32_t> values_;
};

// The graph and its state. Elements are written by the host they belong to: `waiting`, `started`, `completed` by the
// op's host, `received` by its peer.
struct Workload {
  Workload(std::vector<Op> operations, const std::vector<Dependency>& dependencies, std::uint32_t hosts,
           std::uint16_t lane_count, std::uint32_t part_bytes);

  // Number of lanes for a send: one for each `part_bytes_min` or fraction of it, at most all.
  std::uint16_t parts(std::uint32_t op) const;

  std::vector<Op> ops;
  std::uint16_t lanes = 1;
  std::uint32_t part_bytes_min = 1;
  TimePs doorbell = 0;  // from the start of a send to its first packet
  Lists after_completed, after_received, ops_of_host;
  std::vector<std::uint32_t> waiting;  // number of events that the op still waits for
  std::vector<TimePs> started, received, completed;
  std::vector<std::uint16_t> parts_received, parts_completed;
  std::vector<std::uint8_t> failed;
  std::vector<std::uint32_t> connection;  // of a send: its first lane, in the sender's numbering
};

// The unfinished work of one host.
class HostWork {
 public:
  // Adds ops without dependencies to the agenda.
  void begin(Workload& work, std::uint32_t host);
  TimePs next_time() const { return agenda_.empty() ? kNever : agenda_.top().time; }
  // The next op that is due: a send to post, or a computation that has begun or ended (handled here). kNone: nothing
  // due.
  static constexpr std::uint32_t kNone = ~std::uint32_t{0};
  std::uint32_t next_send(Workload& work, TimePs now);
  // One part of an op of this host, or of a send to it, is complete.
  void completed(Workload& work, TimePs now, std::uint32_t op);
  void received(Workload& work, TimePs now, std::uint32_t op);
  std::uint64_t finished() const { return finished_; }  // ops of this host

 private:
  struct Due {
    TimePs time;
    std::uint32_t op;
    bool end;  // of a computation
    bool operator>(const Due& other) const {
      if (time != other.time) return time > other.time;
      return op != other.op ? op > other.op : end > other.end;
    }
  };

  void schedule(const Workload& work, TimePs now, std::uint32_t op);
  void release(Workload& work, TimePs now, std::pair<const std::uint32_t*, const std::uint32_t*> ops);

  std::priority_queue<Due, std::vector<Due>, std::greater<>> agenda_;
  std::uint64_t finished_ = 0;
};

}  // namespace openmrc::netsim
