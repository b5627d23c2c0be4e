// Protection domains of memory: a key is valid for QPs of its own domain only, at either end.
#include "tests/pair.hpp"

namespace {

using namespace openmrc;
using test::Pair;
using test::PairOptions;

constexpr std::uint64_t kBase = 1ULL << 40;
constexpr std::uint32_t kOtherKey = 0x99;
constexpr DomainId kOtherDomain = 7;

// A second region at each end, in `domain`.
void register_other(Pair& pair, std::array<std::vector<std::uint8_t>, 2>& memory, DomainId domain) {
  for (int end = 0; end < 2; ++end) {
    memory[Pair::at(end)].assign(4096, 1);
    CHECK(pair.engine(end).register_memory(
              {memory[Pair::at(end)].data(), kBase, 4096, kOtherKey, kRemoteWrite, domain}) == Status::kOk);
  }
}

SendWr write_to_other(const Pair& pair) {
  SendWr wr = pair.work(1, 100, kBase);
  wr.rkey = kOtherKey;
  return wr;
}

void refuses_a_key_of_another_domain(Transport transport) {
  PairOptions options;
  options.transport = transport;
  Pair pair(options);
  std::array<std::vector<std::uint8_t>, 2> memory;
  register_other(pair, memory, kOtherDomain);
  pair.connect();
  CHECK(pair.engine(0).post_send(pair.now, pair.qp[0], write_to_other(pair)) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.sends[0][0].status == WcStatus::kRemoteAccess);
  CHECK(pair.error(1) == QpErrorCause::kAccessViolation);
  CHECK(memory[1] == std::vector<std::uint8_t>(4096, 1));
}

// proves A.8.2
TEST_CASE(protection_01_a_write_into_another_domain_is_refused) {
  refuses_a_key_of_another_domain(Transport::kMrc);
  refuses_a_key_of_another_domain(Transport::kRc);
}

TEST_CASE(protection_02_a_send_from_another_domain_is_refused) {
  Pair pair;
  std::array<std::vector<std::uint8_t>, 2> memory;
  register_other(pair, memory, kOtherDomain);
  pair.connect();
  SendWr wr = pair.work(1, 100, 0);
  wr.lkey = kOtherKey;
  wr.local_address = kBase;
  CHECK(pair.engine(0).post_send(pair.now, pair.qp[0], wr) == Status::kNotFound);
}

TEST_CASE(protection_03_a_second_region_of_the_same_domain_is_reached) {
  Pair pair;
  std::array<std::vector<std::uint8_t>, 2> memory;
  register_other(pair, memory, 0);
  pair.connect();
  CHECK(pair.write(0, 1, 100, 0) == Status::kOk);
  CHECK(pair.engine(0).post_send(pair.now, pair.qp[0], write_to_other(pair)) == Status::kOk);
  CHECK(pair.run_until_sends(0, 2));
  CHECK(pair.sends[0][1].status == WcStatus::kSuccess);
  CHECK(std::equal(memory[1].begin(), memory[1].begin() + 100, pair.memory[0].begin()));
}

// The result of the last lookup is cached: a region that replaces another one must not inherit its permission.
TEST_CASE(protection_04_a_revoked_key_stays_revoked) {
  Pair pair;
  std::array<std::vector<std::uint8_t>, 2> memory;
  register_other(pair, memory, 0);
  pair.connect();
  CHECK(pair.engine(0).post_send(pair.now, pair.qp[0], write_to_other(pair)) == Status::kOk);
  CHECK(pair.run_until_sends(0, 1));
  CHECK(pair.engine(1).deregister_memory(kOtherKey) == Status::kOk);
  CHECK(pair.engine(1).register_memory({memory[1].data(), kBase, 4096, kOtherKey, kRemoteWrite, kOtherDomain}) ==
        Status::kOk);
  memory[1].assign(4096, 1);
  CHECK(pair.engine(0).post_send(pair.now, pair.qp[0], write_to_other(pair)) == Status::kOk);
  CHECK(pair.run_until_sends(0, 2));
  CHECK(pair.sends[0][1].status == WcStatus::kRemoteAccess);
  CHECK(memory[1] == std::vector<std::uint8_t>(4096, 1));
}

}  // namespace
