// Cases with forks of a process that has connections.
#pragma once

#include <dirent.h>
#include <signal.h>
#include <sys/wait.h>

#include <atomic>
#include <string_view>
#include <thread>

#include "tests/nccl/ranks.hpp"

// Open sockets and eventfds.
inline std::size_t descriptors() {
  std::size_t found = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (const dirent* entry = readdir(folder)) {
    char target[64] = {};
    const std::string path = std::string("/proc/self/fd/") + entry->d_name;
    if (readlink(path.c_str(), target, sizeof target - 1) <= 0) continue;
    found += std::string_view(target).starts_with("socket:") || std::string_view(target).starts_with("anon_inode:");
  }
  closedir(folder);
  return found;
}

// Objects of the parent, of each kind.
struct Parents {
  Pair pair;
  Memory memory;
  void* listening = nullptr;
  void* done_request = nullptr;
  void* open_request = nullptr;
  HandleBytes connecting{};
};

// In the child: everything of the parent refuses, can be closed, and own connections work.
inline void use_in_child(const Rank& rank, Parents& parents, std::size_t descriptors_before) {
  const Net& net = rank.net;
  expect(descriptors() == descriptors_before, "no descriptor of the parent");
  void *out = nullptr, *data = parents.memory.bytes.data(), *sending = parents.pair.sending;
  void *receiving = parents.pair.receiving, *mhandle = parents.memory.mhandle;
  std::size_t size = 8;
  int done = 0, tag = 0;
  expect_result(net.test(parents.done_request, &done, nullptr), ncclInvalidUsage, "test of a done request");
  expect_result(net.test(parents.open_request, &done, nullptr), ncclInvalidUsage, "test");
  expect_result(net.isend(sending, data, 0, 0, mhandle, &out), ncclInvalidUsage, "isend");
  expect_result(net.irecv(receiving, 1, &data, &size, &tag, &mhandle, &out), ncclInvalidUsage, "irecv");
  expect_result(net.iflush(receiving, 1, nullptr, nullptr, nullptr, &out), ncclInvalidUsage, "iflush");
  expect_result(net.regMr(sending, data, 8, NCCL_PTR_HOST, &out), ncclInvalidUsage, "regMr");
  expect_result(net.deregMr(receiving, mhandle), ncclInvalidUsage, "deregMr");
  expect_result(net.accept(parents.listening, &out), ncclInvalidUsage, "accept");
  expect_result(net.connect(0, parents.connecting.data(), &out), ncclInvalidUsage, "connect");
  close_pair(rank, parents.pair);
  succeed(net.closeListen(parents.listening), "closeListen");
  const Pair own = connect_to_self(net);
  send_to_self(net, own, 5);
  close_pair(rank, own);
}

// Forks while other threads send, and connect.
inline void run_forked(const Rank& rank) {
  constexpr int kForks = 15;
  const Net& net = rank.net;
  const std::size_t before = descriptors();
  Parents parents;
  parents.pair = connect_to_self(net);
  parents.memory = memory_of(net, parents.pair.receiving, 8, 0);
  HandleBytes handle{};
  succeed(net.listen(0, handle.data(), &parents.listening), "listen");
  parents.connecting = handle;
  void* none = nullptr;
  succeed(net.connect(0, parents.connecting.data(), &none), "connect");
  std::uint8_t* data = parents.memory.bytes.data();
  parents.done_request = receive_one(net, parents.pair.receiving, data, 8, 0, parents.memory.mhandle);
  finish(net, send_one(net, parents.pair.sending, nullptr, 0, 0, nullptr), nullptr);
  parents.open_request = receive_one(net, parents.pair.receiving, data, 8, 0, parents.memory.mhandle);
  std::atomic<bool> over{false};
  std::thread sender([&] {
    const Pair pair = connect_to_self(net);
    for (std::uint64_t i = 0; !over; ++i) send_to_self(net, pair, i);
    close_pair(rank, pair);
  });
  std::thread connector([&] {
    while (!over) close_pair(rank, connect_to_self(net));
  });
  for (int i = 0; i < kForks; ++i) {
    const pid_t child = fork();
    if (child == 0) {
      use_in_child(rank, parents, before);
      _exit(0);
    }
    int status = -1;
    expect(waitpid(child, &status, 0) == child && status == 0, "the end of the child");
  }
  over = true;
  sender.join();
  connector.join();
  finish(net, parents.done_request, nullptr);
  finish(net, send_one(net, parents.pair.sending, nullptr, 0, 0, nullptr), nullptr);
  finish(net, parents.open_request, nullptr);
  close_pair(rank, parents.pair);
  succeed(net.closeListen(parents.listening), "closeListen");
}

// A killed peer is noticed though a child that it forked lives on.
inline void run_killed_forked(const Rank& rank) {
  const Net& net = rank.net;
  const Pair pair = connect_pairs(rank, 1).front();
  Memory to = memory_of(net, pair.receiving, 8, 0);
  if (rank.number == 1) {
    if (fork() == 0) {
      close(1);
      close(2);
      rank.wait_for("over");
      _exit(0);
    }
    kill(getpid(), SIGKILL);
  }
  void* receiving = receive_one(net, pair.receiving, to.bytes.data(), 8, 0, to.mhandle);
  expect_result(await_failure(net, receiving), ncclRemoteError, "the receive");
  rank.publish("over", {});
  close_pair(rank, pair);
}
