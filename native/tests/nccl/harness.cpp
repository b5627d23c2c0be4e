// Drives the plugin as NCCL does: nccl_harness PLUGIN NEWEST_VERSION CASE RANK DIRECTORY
#include <arpa/inet.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/socket.h>
#include <time.h>

#include <algorithm>
#include <map>

#include "tests/nccl/fault_cases.hpp"
#include "tests/nccl/flag_cases.hpp"
#include "tests/nccl/fork_cases.hpp"
#include "tests/nccl/ranks.hpp"
#include "tests/nccl/ring_case.hpp"

namespace {

constexpr std::uint8_t kUntouched = 0xA5;

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<std::uint64_t>(now.tv_nsec);
}

// One message of each size, into a receive that is larger, except the last ones.
void exchange_sizes(const Rank& rank, const std::vector<std::size_t>& sizes, std::size_t spare) {
  const Pair pair = connect_pairs(rank, 1).front();
  const Net& net = rank.net;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::size_t size = sizes[i];
    Memory from = memory_of(net, pair.sending, size + 1, 0),
           to = memory_of(net, pair.receiving, size + spare, kUntouched);
    fill(from.bytes.data(), size, i + static_cast<std::size_t>(rank.number));
    void* receiving = receive_one(net, pair.receiving, to.bytes.data(), size + spare, 5, to.mhandle);
    void* sending = send_one(net, pair.sending, from.bytes.data(), size, 5, from.mhandle);
    int sent = -1, received = -1;
    finish(net, receiving, &received);
    finish(net, sending, &sent);
    const int wanted = static_cast<int>(size);
    expect(sent == wanted && received == wanted, "size " + std::to_string(size) + ", not " + std::to_string(received));
    expect(filled(to.bytes.data(), size, i + static_cast<std::size_t>(1 - rank.number)), "the contents sent");
    for (std::size_t at = size; at < size + spare; ++at) expect(to.bytes[at] == kUntouched, "untouched bytes behind");
    void* flushed = &flushed;
    succeed(net.iflush(pair.receiving, 1, nullptr, nullptr, nullptr, &flushed), "iflush");
    expect(flushed == nullptr, "nothing to flush");
    succeed(net.deregMr(pair.sending, from.mhandle), "deregMr");
    succeed(net.deregMr(pair.receiving, to.mhandle), "deregMr");
  }
  close_pair(rank, pair);
}

void run_sizes(const Rank& rank) {
  exchange_sizes(rank, {0, 1, 7, 1000, 4095, 4096, 4097, 65536, 1 << 20, (16 << 20) + 3, 0}, 100);
}

void run_gibibyte(const Rank& rank) { exchange_sizes(rank, {1U << 30}, 0); }

// Longer than one WRITE of MRC.
void run_beyond(const Rank& rank) { exchange_sizes(rank, {(1U << 30) + 4099}, 0); }

// Groups of 1 to 8 receives, whose messages come in another order of tags; as many groups at once as there is room for.
void run_groups(const Rank& rank) {
  constexpr std::size_t kRoom = 3000, kGroups = 200;
  const Pair pair = connect_pairs(rank, 1).front();
  const Net& net = rank.net;
  Memory from = memory_of(net, pair.sending, kGroups * 8 * kRoom, 0);
  Memory to = memory_of(net, pair.receiving, kGroups * 8 * kRoom, kUntouched);
  std::map<std::size_t, void*> receiving;
  std::vector<void*> sending;
  std::size_t announced = 0, next = 0, done_groups = 0;
  const auto place = [](std::size_t group, std::size_t index) { return (group * 8 + index) * kRoom; };
  const auto size_of = [](std::size_t group, std::size_t index) { return (group * 37 + index * 211) % kRoom; };
  const auto count_of = [](std::size_t group) { return group % 8 + 1; };
  while (done_groups < kGroups || next < kGroups * 8) {
    if (announced < kGroups) {
      void *data[8], *mhandles[8], *request = nullptr;
      std::size_t sizes[8];
      int tags[8];
      for (std::size_t i = 0; i < count_of(announced); ++i) {
        data[i] = to.bytes.data() + place(announced, i);
        mhandles[i] = to.mhandle;
        sizes[i] = kRoom;
        tags[i] = static_cast<int>(100 + i);
      }
      const int n = static_cast<int>(count_of(announced));
      succeed(net.irecv(pair.receiving, n, data, sizes, tags, mhandles, &request), "irecv");
      if (request != nullptr) receiving[announced++] = request;
    }
    if (next < kGroups * 8) {
      const std::size_t group = next / 8, index = 7 - next % 8;  // the last tag first
      void* request = nullptr;
      if (index < count_of(group)) {
        std::uint8_t* data = from.bytes.data() + place(group, index);
        fill(data, size_of(group, index), group * 8 + index);
        const int tag = static_cast<int>(100 + index);
        succeed(net.isend(pair.sending, data, size_of(group, index), tag, from.mhandle, &request), "isend");
        if (request != nullptr) sending.push_back(request);
      }
      if (request != nullptr || index >= count_of(group)) ++next;
    }
    for (auto at = receiving.begin(); at != receiving.end();) {
      int done = 0, sizes[8];
      succeed(net.test(at->second, &done, sizes), "test");
      if (done == 0) break;
      for (std::size_t i = 0; i < count_of(at->first); ++i) {
        expect(sizes[i] == static_cast<int>(size_of(at->first, i)), "the size of each receive of a group");
        const std::uint8_t* data = to.bytes.data() + place(at->first, i);
        expect(filled(data, size_of(at->first, i), at->first * 8 + i), "the message with its tag");
        expect(data[size_of(at->first, i)] == kUntouched, "untouched bytes behind");
      }
      ++done_groups;
      at = receiving.erase(at);
    }
  }
  for (void* request : sending) finish(net, request, nullptr);
  close_pair(rank, pair);
}

// 64 connections in each direction, with several messages on each at a time.
void run_connections(const Rank& rank) {
  constexpr std::size_t kConnections = 64, kMessages = 4, kSize = 20'000;
  const Net& net = rank.net;
  const std::vector<Pair> pairs = connect_pairs(rank, kConnections);
  std::vector<Memory> from, to;
  std::vector<void*> requests;
  for (std::size_t i = 0; i < kConnections; ++i) {
    from.push_back(memory_of(net, pairs[i].sending, kMessages * kSize, 0));
    to.push_back(memory_of(net, pairs[i].receiving, kMessages * kSize, kUntouched));
    fill(from[i].bytes.data(), kMessages * kSize, i);
    for (std::size_t m = 0; m < kMessages; ++m) {
      std::uint8_t* data = to[i].bytes.data() + m * kSize;
      requests.push_back(receive_one(net, pairs[i].receiving, data, kSize, 0, to[i].mhandle));
    }
  }
  for (std::size_t m = 0; m < kMessages; ++m) {
    for (std::size_t i = 0; i < kConnections; ++i) {
      std::uint8_t* data = from[i].bytes.data() + m * kSize;
      requests.push_back(send_one(net, pairs[i].sending, data, kSize, 0, from[i].mhandle));
    }
  }
  for (void* request : requests) finish(net, request, nullptr);
  for (std::size_t i = 0; i < kConnections; ++i) {
    expect(filled(to[i].bytes.data(), kMessages * kSize, i), "the contents of connection " + std::to_string(i));
  }
  for (const Pair& pair : pairs) close_pair(rank, pair);
}

// A message longer than its receive fails at the sender, and nothing is written.
void run_too_long(const Rank& rank) {
  const Net& net = rank.net;
  const Pair pair = connect_pairs(rank, 1).front();
  Memory memory = memory_of(net, rank.number == 0 ? pair.sending : pair.receiving, 200, kUntouched);
  if (rank.number == 0) {
    void* request = nullptr;
    ncclResult_t result = ncclSuccess;
    while (result == ncclSuccess && request == nullptr) {
      result = net.isend(pair.sending, memory.bytes.data(), 101, 3, memory.mhandle, &request);
    }
    expect_result(result, ncclInvalidUsage, "isend of 101 bytes into 100");
    close_pair(rank, pair);
  } else {
    void* request = receive_one(net, pair.receiving, memory.bytes.data(), 100, 3, memory.mhandle);
    expect_result(await_failure(net, request), ncclRemoteError, "the receive");
    expect(std::all_of(memory.bytes.begin(), memory.bytes.end(), [](auto b) { return b == kUntouched; }), "no write");
    close_pair(rank, pair);
  }
}

// A peer that is killed: receives and sends fail, and so does everything later.
void run_killed(const Rank& rank) {
  const Net& net = rank.net;
  const Pair pair = connect_pairs(rank, 1).front();
  constexpr std::size_t kSize = 8 << 20;
  Memory from = memory_of(net, pair.sending, kSize, 1), to = memory_of(net, pair.receiving, kSize, 0);
  if (rank.number == 1) {
    for (int i = 0; i < 8; ++i) receive_one(net, pair.receiving, to.bytes.data(), kSize, 0, to.mhandle);
    rank.publish("announced", {});
    rank.wait_for("started");
    kill(getpid(), SIGKILL);
  }
  rank.wait_for("announced");
  void* receiving = receive_one(net, pair.receiving, to.bytes.data(), kSize, 0, to.mhandle);
  std::vector<void*> sending;
  for (int i = 0; i < 8; ++i) sending.push_back(send_one(net, pair.sending, from.bytes.data(), kSize, 0, from.mhandle));
  rank.publish("started", {});
  expect_result(await_failure(net, receiving), ncclRemoteError, "the receive");
  expect_result(await_failure(net, sending.back()), ncclRemoteError, "the send");
  void* request = nullptr;
  expect_result(net.isend(pair.sending, from.bytes.data(), 1, 0, from.mhandle, &request), ncclRemoteError, "isend");
  close_pair(rank, pair);
}

// The receiver closes at once; the sender, which has not polled since, finds its messages delivered.
void run_closing(const Rank& rank) {
  const Net& net = rank.net;
  const Pair pair = connect_pairs(rank, 1).front();
  Memory memory = memory_of(net, rank.number == 0 ? pair.sending : pair.receiving, 1000, 1);
  if (rank.number == 0) {
    void* request = send_one(net, pair.sending, memory.bytes.data(), 1000, 0, memory.mhandle);
    rank.wait_for("closed");
    finish(net, request, nullptr);
    while (net.isend(pair.sending, memory.bytes.data(), 1, 0, memory.mhandle, &request) == ncclSuccess) usleep(100);
    close_pair(rank, pair);
  } else {
    finish(net, receive_one(net, pair.receiving, memory.bytes.data(), 1000, 0, memory.mhandle), nullptr);
    close_pair(rank, pair);
    rank.publish("closed", {});
  }
}

// One process that sends to itself.
void run_alone(const Rank& rank) {
  const Net& net = rank.net;
  const Pair pair = connect_to_self(net);
  send_to_self(net, pair, 3);
  close_pair(rank, pair);
}

// Two devices become one with the planes of both.
void run_merged(const Rank& rank) {
  ncclNetVDeviceProps_t both{2, {0, 1}}, same{2, {0, 0}}, none{1, {9}};
  int dev = -1, count = 0;
  succeed(rank.net.makeVDevice(&dev, &both), "makeVDevice");
  succeed(rank.net.devices(&count), "devices");
  expect(count == 2 && dev == 2, "a third device");
  ncclNetProperties_v11_t properties{};
  succeed(rank.net.getProperties(dev, &properties), "getProperties");
  expect(std::string(properties.name) == "mrc0+mrc1" && properties.vProps.ndevs == 2, "the parts");
  int other = -1;
  expect_result(rank.net.makeVDevice(&other, &same), ncclInvalidUsage, "a device twice");
  expect_result(rank.net.makeVDevice(&other, &none), ncclInvalidArgument, "no such device");
  const Pair pair = connect_pairs(rank, 1, dev).front();
  Memory from = memory_of(rank.net, pair.sending, 1 << 20, 7), to = memory_of(rank.net, pair.receiving, 1 << 20, 0);
  void* request = receive_one(rank.net, pair.receiving, to.bytes.data(), 1 << 20, 0, to.mhandle);
  void* sending = send_one(rank.net, pair.sending, from.bytes.data(), 1 << 20, 0, from.mhandle);
  finish(rank.net, request, nullptr);
  finish(rank.net, sending, nullptr);
  expect(to.bytes == std::vector<std::uint8_t>(1 << 20, 7), "the contents");
  close_pair(rank, pair);
}

void run_properties(const Rank& rank) {
  ncclNetProperties_v11_t properties{};
  succeed(rank.net.getProperties(0, &properties), "getProperties");
  std::printf(
      "{\"name\": \"%s\", \"pci\": %s, \"guid\": %llu, \"pointers\": %d, \"global\": %d, \"speed\": %d, \"port\": %d, "
      "\"latency\": %g, \"comms\": %d, \"receives\": %d}\n",
      properties.name, properties.pciPath == nullptr ? "null" : "true",
      static_cast<unsigned long long>(properties.guid), properties.ptrSupport, properties.regIsGlobal, properties.speed,
      properties.port, static_cast<double>(properties.latency), properties.maxComms, properties.maxRecvs);
}

// As many connections as the device offers, all at once.
void run_most(const Rank& rank) {
  ncclNetProperties_v11_t properties{};
  succeed(rank.net.getProperties(0, &properties), "getProperties");
  std::vector<Pair> pairs;
  for (int comms = 0; comms + 2 <= properties.maxComms; comms += 2) pairs.push_back(connect_to_self(rank.net));
  send_to_self(rank.net, pairs.front(), 1);
  send_to_self(rank.net, pairs.back(), 2);
  for (const Pair& pair : pairs) close_pair(rank, pair);
}

int stranger(const HandleBytes& handle, const std::vector<std::uint8_t>& bytes) {
  sockaddr_in to{};
  to.sin_family = AF_INET;
  std::memcpy(&to.sin_port, handle.data() + 8, 2);
  std::memcpy(&to.sin_addr, handle.data() + 11, 4);
  const int fd = socket(AF_INET, SOCK_STREAM, 0);
  expect(::connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof to) == 0, "a TCP connection");
  if (!bytes.empty()) expect(write(fd, bytes.data(), bytes.size()) > 0, "bytes sent");
  return fd;
}

// Strangers on the port of the set-up change nothing; a peer that has the handle and breaks the rules is an error.
void run_strangers(const Rank& rank) {
  const Net& net = rank.net;
  HandleBytes handle{};
  void *listening = nullptr, *sending = nullptr, *receiving = nullptr;
  succeed(net.listen(0, handle.data(), &listening), "listen");
  std::vector<int> strangers{stranger(handle, {}), stranger(handle, std::vector<std::uint8_t>(1000, 0xFF)),
                             stranger(handle, {1, 2, 3})};
  close(strangers.back());
  HandleBytes copy = handle;
  while (sending == nullptr || receiving == nullptr) {
    if (sending == nullptr) succeed(net.connect(0, copy.data(), &sending), "connect");
    if (receiving == nullptr) succeed(net.accept(listening, &receiving), "accept");
  }
  close_pair(rank, {sending, receiving});
  std::vector<std::uint8_t> hello(328, 0);
  std::copy_n(handle.begin(), 8, hello.begin());
  hello[7] = 2;  // a hello
  std::copy_n(handle.begin() + 27, 16, hello.begin() + 8);
  strangers.push_back(stranger(handle, hello));
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess) {
    result = net.accept(listening, &receiving);
    expect(receiving == nullptr, "no connection");
  }
  expect_result(result, ncclRemoteError, "a hello without a QP");
  succeed(net.closeListen(listening), "closeListen");
  copy = handle;
  while ((result = net.connect(0, copy.data(), &sending)) == ncclSuccess) expect(sending == nullptr, "no connection");
  expect_result(result, ncclRemoteError, "nobody listens");
}

void run_misuse(const Rank& rank) {
  const Net& net = rank.net;
  int number = 0;
  void *out = nullptr, *nothing = nullptr;
  std::size_t size = 10;
  ncclNetProperties_v11_t properties{};
  HandleBytes garbage{};
  garbage.fill(0x41);
  expect(net.getProperties(5, &properties) != ncclSuccess, "no device 5");
  expect(net.listen(-1, garbage.data(), &out) != ncclSuccess, "no device -1");
  garbage.fill(0x41);
  expect(net.connect(0, garbage.data(), &out) != ncclSuccess, "garbage is no handle");
  HandleBytes zero{};
  expect(net.connect(0, zero.data(), &out) != ncclSuccess, "zeros are no handle");
  expect(net.accept(&number, &out) != ncclSuccess, "no listen comm");
  expect(net.closeSend(&number) != ncclSuccess && net.closeRecv(nullptr) != ncclSuccess, "no comm");
  expect(net.closeListen(&number) != ncclSuccess, "no listen comm");
  expect(net.test(&number, &number, nullptr) != ncclSuccess, "no request");
  HandleBytes handle{};
  void *listening = nullptr, *sending = nullptr, *receiving = nullptr;
  succeed(net.listen(0, handle.data(), &listening), "listen");
  while (sending == nullptr || receiving == nullptr) {
    if (sending == nullptr) succeed(net.connect(0, handle.data(), &sending), "connect");
    if (receiving == nullptr) succeed(net.accept(listening, &receiving), "accept");
  }
  Memory from = memory_of(net, sending, 10, 1), to = memory_of(net, receiving, 10, 2);
  expect(net.closeSend(listening) != ncclSuccess && net.closeListen(sending) != ncclSuccess, "comms of other kinds");
  expect(net.closeRecv(from.mhandle) != ncclSuccess && net.closeSend(receiving) != ncclSuccess, "none of these");
  expect(net.test(sending, &number, nullptr) != ncclSuccess, "a comm is no request");
  expect(net.regMr(listening, from.bytes.data(), 10, NCCL_PTR_HOST, &out) != ncclSuccess, "no connection");
  for (const int type : {2, 4, 0, 3}) {  // memory of a GPU, a DMA buffer, nothing, both kinds
    out = &number;
    expect_result(net.regMr(sending, from.bytes.data(), 10, type, &out), ncclInternalError, "memory of another type");
    expect(out == nullptr, "no handle");
  }
  out = &number;
  expect_result(net.regMrDmaBuf(sending, from.bytes.data(), 10, 2, 0, 0, &out), ncclInternalError, "a DMA buffer");
  expect(out == nullptr, "no handle");
  expect(net.regMr(sending, nullptr, 10, NCCL_PTR_HOST, &out) != ncclSuccess, "no memory");
  expect(net.deregMr(receiving, from.mhandle) != ncclSuccess, "memory of another comm");
  expect(net.isend(receiving, from.bytes.data(), 1, 0, from.mhandle, &out) != ncclSuccess, "the wrong end");
  void* data[9] = {to.bytes.data()};
  void* mhandles[9] = {to.mhandle};
  std::size_t sizes[9] = {11};
  int tags[9] = {};
  expect(net.irecv(sending, 1, data, sizes, tags, mhandles, &out) != ncclSuccess, "the wrong end");
  expect(net.irecv(receiving, 1, data, sizes, tags, mhandles, &out) != ncclSuccess, "beyond its memory");
  expect(net.irecv(receiving, 9, data, sizes, tags, mhandles, &out) != ncclSuccess, "nine receives");
  expect(net.irecv(receiving, 0, data, sizes, tags, mhandles, &out) != ncclSuccess, "no receive");
  mhandles[0] = from.mhandle;
  sizes[0] = 10;
  expect(net.irecv(receiving, 1, data, sizes, tags, mhandles, &out) != ncclSuccess, "memory of another comm");
  void* request = receive_one(net, receiving, to.bytes.data(), size, 9, to.mhandle);
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess) result = net.isend(sending, from.bytes.data() + 5, 6, 9, from.mhandle, &nothing);
  expect_result(result, ncclInvalidUsage, "beyond its memory");
  succeed(net.isend(sending, from.bytes.data(), 5, 8, from.mhandle, &nothing), "isend with another tag");
  expect(nothing == nullptr, "no request for another tag");
  finish(net, send_one(net, sending, from.bytes.data(), 5, 9, from.mhandle), nullptr);
  finish(net, request, nullptr);
  expect(net.test(request, &number, nullptr) != ncclSuccess, "a request that has ended");
  close_pair(rank, {sending, receiving});
  expect(net.closeSend(sending) != ncclSuccess, "a comm that was closed");
  expect(net.regMr(sending, from.bytes.data(), 10, NCCL_PTR_HOST, &out) != ncclSuccess, "a comm that was closed");
  succeed(net.closeListen(listening), "closeListen");
}

// Rank 0 sends messages of 4 MiB for some seconds, eight at a time, and prints its rate. They take turns in `places`.
void measure_bandwidth(const Rank& rank, std::size_t places) {
  constexpr std::size_t kSize = 4 << 20, kWindow = 8;
  const char* seconds = std::getenv("NCCL_HARNESS_SECONDS");
  const std::uint64_t span_ns = std::strtoull(seconds == nullptr ? "3" : seconds, nullptr, 10) * 1'000'000'000;
  const Net& net = rank.net;
  const Pair pair = connect_pairs(rank, 1).front();
  Memory memory = memory_of(net, rank.number == 0 ? pair.sending : pair.receiving, kSize * places, 1);
  std::array<void*, kWindow> requests{};
  std::uint64_t messages = 0, bytes = 0;
  const std::uint64_t begin = now_ns();
  std::uint64_t counted_from = 0;
  // An empty message ends the run.
  for (std::size_t i = 0;; i = (i + 1) % kWindow) {
    int size = 0;
    if (requests[i] != nullptr) {
      finish(net, requests[i], &size);
      bytes += static_cast<std::uint64_t>(size);
      if (size == 0) break;
      if (++messages == 4 * kWindow) {  // the first ones find their rate
        counted_from = now_ns();
        bytes = 0;
      }
    }
    std::uint8_t* data = memory.bytes.data() + i % places * kSize;
    const std::size_t wanted = now_ns() - begin < span_ns ? kSize : 0;
    requests[i] = rank.number == 0 ? send_one(net, pair.sending, data, wanted, 0, memory.mhandle)
                                   : receive_one(net, pair.receiving, data, kSize, 0, memory.mhandle);
  }
  const double elapsed_s = static_cast<double>(now_ns() - counted_from) / 1e9;
  rank.meet("measured");
  if (rank.number == 0) {
    std::printf("{\"message_bytes\": %zu, \"bytes\": %llu, \"seconds\": %.6f, \"gbit_s\": %.3f}\n", kSize,
                static_cast<unsigned long long>(bytes), elapsed_s, static_cast<double>(bytes) * 8e-9 / elapsed_s);
  }
  close_pair(rank, pair);
}

// As many places as `openmrc perf write` has: the caches of a processor hold them, or do not.
void run_bandwidth(const Rank& rank) { measure_bandwidth(rank, 2); }
void run_bandwidth_apart(const Rank& rank) { measure_bandwidth(rank, 8); }

}  // namespace

int main(int count, char** words) {
  const std::map<std::string, void (*)(const Rank&)> cases{{"sizes", run_sizes},
                                                           {"gibibyte", run_gibibyte},
                                                           {"beyond", run_beyond},
                                                           {"groups", run_groups},
                                                           {"flags", flags::run_both},
                                                           {"flags_ll", flags::run_ll},
                                                           {"connections", run_connections},
                                                           {"too_long", run_too_long},
                                                           {"killed", run_killed},
                                                           {"closing", run_closing},
                                                           {"alone", run_alone},
                                                           {"merged", run_merged},
                                                           {"strangers", run_strangers},
                                                           {"misuse", run_misuse},
                                                           {"bandwidth", run_bandwidth},
                                                           {"bandwidth_apart", run_bandwidth_apart},
                                                           {"ring", ring::run},
                                                           {"properties", run_properties},
                                                           {"most", run_most},
                                                           {"silenced", run_silenced},
                                                           {"connect_silent", run_connect_silent},
                                                           {"offer_silent", run_offer_silent},
                                                           {"ready_silent", run_ready_silent},
                                                           {"dead_plane", run_dead_plane},
                                                           {"forked", run_forked},
                                                           {"killed_forked", run_killed_forked}};
  if (count != 6 || !cases.contains(words[3])) give_up("usage: nccl_harness PLUGIN NEWEST_VERSION CASE RANK DIRECTORY");
  const int newest = std::atoi(words[2]);
  Rank rank{load(words[1], newest), std::atoi(words[4]), words[5]};
  expect(rank.net.version == std::min(newest, 11) && rank.net.name == "openmrc", "the newest known version");
  ncclNetProperties_v11_t properties{};
  succeed(rank.net.getProperties(0, &properties), "getProperties");
  expect(properties.ptrSupport == NCCL_PTR_HOST && properties.maxRecvs == 8 && properties.speed > 0, "properties");
  cases.at(words[3])(rank);
  succeed(rank.net.finalize(), "finalize");
  std::fprintf(stderr, "as expected\n");
  return 0;
}
