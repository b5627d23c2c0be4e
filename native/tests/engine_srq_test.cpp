// Shared receive queues: receives that several QPs consume, of either transport.
#include <algorithm>

#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using test::Pair;
using test::PairOptions;

constexpr std::uint64_t kTarget = 512 * 1024;
constexpr std::uint32_t kKey = Pair::kKey;

PairOptions shared(Transport transport) {
  PairOptions options;
  options.transport = transport;
  options.srq_receives = 4;
  return options;
}

std::vector<Event> limits_of(const Pair& pair, int end) {
  std::vector<Event> limits;
  std::copy_if(pair.events[Pair::at(end)].begin(), pair.events[Pair::at(end)].end(), std::back_inserter(limits),
               [](const Event& event) { return event.type == EventType::kSrqLimit; });
  return limits;
}

// proves X.8.10
TEST_CASE(srq_01_receives_are_taken_in_order_and_the_limit_is_announced_once) {
  for (const Transport transport : {Transport::kMrc, Transport::kRc}) {
    Pair pair(shared(transport));
    pair.connect(0);
    const SrqId srq = pair.srq[1];
    CHECK(pair.engine(1).set_srq_limit(srq, 5) == Status::kInvalidArgument);
    CHECK(pair.engine(1).set_srq_limit(99, 1) == Status::kNotFound);
    CHECK(pair.engine(1).post_recv(pair.qp[1], 1) == Status::kInvalidArgument);
    const std::vector<Sge> part{{kTarget, 2000, kKey}};
    for (std::uint64_t i = 0; i < 4; ++i) CHECK(pair.engine(1).post_srq_recv(srq, 10 + i, part) == Status::kOk);
    CHECK(pair.engine(1).post_srq_recv(srq, 14, part) == Status::kQueueFull);
    CHECK(pair.engine(1).set_srq_limit(srq, 3) == Status::kOk);
    for (std::uint64_t i = 0; i < 4; ++i) {
      const bool send = transport == Transport::kRc && i % 2 == 0;
      CHECK((send ? pair.send(0, i, 2000) : pair.write_imm(0, i, 2000, kTarget, 0)) == Status::kOk);
      CHECK(pair.run_until_sends(0, i + 1));
      CHECK(limits_of(pair, 1).size() == (i < 1 ? 0U : 1U));
      CHECK(pair.recvs[1].back().wr_id == 10 + i && pair.recvs[1].back().qp == pair.qp[1]);
    }
    CHECK(limits_of(pair, 1)[0].value == srq && limits_of(pair, 1)[0].detail == 2);
    SrqStats stats;
    CHECK(pair.engine(1).srq_stats(srq, stats) && stats.posted == 0 && stats.limit == 0);
    CHECK(!pair.engine(1).srq_stats(99, stats));
  }
}

// proves X.8.10
TEST_CASE(srq_02_a_failed_qp_leaves_the_receives_to_others) {
  Pair pair(shared(Transport::kRc));
  pair.connect(0);
  const SrqId srq = pair.srq[1];
  for (std::uint64_t i = 0; i < 2; ++i) CHECK(pair.engine(1).post_srq_recv(srq, i, {}) == Status::kOk);
  CHECK(pair.engine(1).destroy_srq(srq) == Status::kBusy);
  CHECK(pair.engine(1).move_to_error(pair.now, pair.qp[1]) == Status::kOk);
  pair.pump();
  CHECK(pair.recvs[1].empty());
  SrqStats stats;
  CHECK(pair.engine(1).srq_stats(srq, stats) && stats.posted == 2);
  CHECK(pair.engine(1).reset_qp(pair.now, pair.qp[1]) == Status::kOk);
  CHECK(pair.engine(1).destroy_srq(srq) == Status::kBusy);
  CHECK(pair.engine(1).destroy_qp(pair.now, pair.qp[1]) == Status::kOk);
  CHECK(pair.engine(1).destroy_srq(srq) == Status::kOk);
  CHECK(pair.engine(1).destroy_srq(srq) == Status::kNotFound);
}

TEST_CASE(srq_03_unknown_queues_and_sizes) {
  Pair pair(shared(Transport::kRc));
  SrqId srq = 0;
  CHECK(pair.engine(0).create_srq({.wr_max = 0}, srq) == Status::kInvalidArgument);
  CHECK(pair.engine(0).post_srq_recv(99, 0) == Status::kNotFound);
  std::uint32_t qp = 0;
  const QpInitAttributes attributes{.send_cq = pair.send_cq[0], .recv_cq = pair.recv_cq[0], .srq = 99};
  CHECK(pair.engine(0).create_qp(attributes, qp) == Status::kNotFound);
}

}  // namespace
