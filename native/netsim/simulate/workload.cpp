#include "netsim/simulate/workload.hpp"

#include <algorithm>

#include "engine/base/assert.hpp"

namespace openmrc::netsim {

Lists::Lists(std::uint32_t keys, const std::vector<std::pair<std::uint32_t, std::uint32_t>>& pairs)
    : begins_(std::size_t{keys} + 1), values_(pairs.size()) {
  for (const auto& [key, value] : pairs) ++begins_[key + 1];
  for (std::size_t key = 0; key < keys; ++key) begins_[key + 1] += begins_[key];
  std::vector<std::uint64_t> next(begins_.begin(), begins_.end() - 1);
  for (const auto& [key, value] : pairs) values_[next[key]++] = value;
}

Workload::Workload(std::vector<Op> operations, const std::vector<Dependency>& dependencies, std::uint32_t hosts,
                   std::uint16_t lane_count, std::uint32_t part_bytes)
    : ops(std::move(operations)), lanes(lane_count), part_bytes_min(part_bytes), waiting(ops.size()) {
  const auto count = static_cast<std::uint32_t>(ops.size());
  std::vector<std::pair<std::uint32_t, std::uint32_t>> completions, receptions, owners;
  for (const Dependency& dependency : dependencies) {
    (dependency.event == OpEvent::kCompleted ? completions : receptions).emplace_back(dependency.on, dependency.op);
    ++waiting[dependency.op];
  }
  for (std::uint32_t op = 0; op < count; ++op) owners.emplace_back(ops[op].host, op);
  after_completed = Lists(count, completions);
  after_received = Lists(count, receptions);
  ops_of_host = Lists(hosts, owners);
  started.assign(count, -1);
  received.assign(count, -1);
  completed.assign(count, -1);
  parts_received.assign(count, 0);
  parts_completed.assign(count, 0);
  failed.assign(count, 0);
  connection.assign(count, 0);
}

std::uint16_t Workload::parts(std::uint32_t op) const {
  if (lanes == 1) return 1;
  const std::uint64_t most = (ops[op].bytes + part_bytes_min - 1) / part_bytes_min;
  return static_cast<std::uint16_t>(std::clamp<std::uint64_t>(most, 1, lanes));
}

void HostWork::begin(Workload& work, std::uint32_t host) {
  const auto [first, last] = work.ops_of_host.of(host);
  for (const std::uint32_t* op = first; op != last; ++op) {
    if (work.waiting[*op] == 0) schedule(work, 0, *op);
  }
}

void HostWork::schedule(const Workload& work, TimePs now, std::uint32_t op) {
  const Op& what = work.ops[op];
  agenda_.push({std::max(now, what.earliest) + (what.kind == OpKind::kSend ? work.doorbell : 0), op, false});
}

std::uint32_t HostWork::next_send(Workload& work, TimePs now) {
  while (!agenda_.empty() && agenda_.top().time <= now) {
    const Due due = agenda_.top();
    agenda_.pop();
    if (due.end) {
      completed(work, now, due.op);
      continue;
    }
    const bool is_send = work.ops[due.op].kind == OpKind::kSend;
    work.started[due.op] = due.time - (is_send ? work.doorbell : 0);
    if (is_send) return due.op;
    agenda_.push({.time = now + work.ops[due.op].duration, .op = due.op, .end = true});
  }
  return kNone;
}

void HostWork::completed(Workload& work, TimePs now, std::uint32_t op) {
  const bool is_send = work.ops[op].kind == OpKind::kSend;
  if (is_send && ++work.parts_completed[op] < work.parts(op)) return;
  work.completed[op] = now;
  ++finished_;
  release(work, now, work.after_completed.of(op));
}

void HostWork::received(Workload& work, TimePs now, std::uint32_t op) {
  if (++work.parts_received[op] < work.parts(op)) return;
  work.received[op] = now;
  release(work, now, work.after_received.of(op));
}

void HostWork::release(Workload& work, TimePs now, std::pair<const std::uint32_t*, const std::uint32_t*> ops) {
  for (const std::uint32_t* op = ops.first; op != ops.second; ++op) {
    MRC_ASSERT(work.waiting[*op] > 0);
    if (--work.waiting[*op] == 0) schedule(work, now, *op);
  }
}

}  // namespace openmrc::netsim
