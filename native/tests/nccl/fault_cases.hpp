// Cases with faults of the network, which the test makes when all ranks are "running", and reports as "cut".
#pragma once

#include <linux/tcp.h>
#include <netinet/in.h>
#include <sys/ioctl.h>
#include <sys/socket.h>

#include "tests/nccl/ranks.hpp"

inline void await_cut(const Rank& rank) {
  rank.publish("running" + std::to_string(rank.number), {});
  rank.wait_for("cut");
}

// Every operation towards a host that is gone without a word ends with an error, and everything can be closed.
inline void run_silenced(const Rank& rank) {
  constexpr std::size_t kSize = 1 << 20, kMessages = 4;
  const Net& net = rank.net;
  const Pair pair = connect_pairs(rank, 1).front(), idle = connect_pairs(rank, 1, 0, "idle").front();
  Memory from = memory_of(net, pair.sending, kSize, 1), to = memory_of(net, pair.receiving, kSize, 0);
  Memory other = memory_of(net, idle.receiving, kSize, 0);
  std::vector<void*> pending;
  for (std::size_t i = 0; i < kMessages; ++i) {
    pending.push_back(receive_one(net, pair.receiving, to.bytes.data(), kSize, 0, to.mhandle));
  }
  void* first = send_one(net, pair.sending, from.bytes.data(), kSize, 0, from.mhandle);  // the receives are announced
  finish(net, first, nullptr);
  finish(net, pending.front(), nullptr);
  await_cut(rank);
  void* never = receive_one(net, idle.receiving, other.bytes.data(), kSize, 0, other.mhandle);
  void* sending = send_one(net, pair.sending, from.bytes.data(), kSize, 0, from.mhandle);
  // At once, as NCCL does: a connection whose program makes no calls asks its peer nothing.
  std::vector<void*> failing{sending, pending.back(), never};
  void* request = nullptr;
  ncclResult_t result = ncclSuccess;
  while (!failing.empty() || result == ncclSuccess) {
    std::erase_if(failing, [&](void* one) { return has_failed(net, one); });
    if (result == ncclSuccess) result = net.isend(idle.sending, from.bytes.data(), 0, 0, nullptr, &request);
    expect(request == nullptr, "no request");
    usleep(100);
  }
  expect_result(result, ncclRemoteError, "a send for which no receive is announced");
  succeed(net.deregMr(pair.sending, from.mhandle), "deregMr");
  succeed(net.deregMr(pair.receiving, to.mhandle), "deregMr");
  close_pair(rank, pair);
  close_pair(rank, idle);
}

// --- silence during the set-up

// The TCP connection of this process, if it has sent anything; -1: none.
inline int greeted_socket() {
  constexpr int kEstablished = 1;
  for (int fd = 3; fd < 1024; ++fd) {
    tcp_info info{};
    socklen_t length = sizeof info;
    if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) != 0 || info.tcpi_state != kEstablished) continue;
    if (info.tcpi_bytes_acked > 1) return fd;  // the SYN counts
  }
  return -1;
}

inline ncclResult_t connect_until_failure(const Rank& rank, HandleBytes& handle) {
  void* sending = nullptr;
  ncclResult_t result = ncclSuccess;
  while ((result = rank.net.connect(0, handle.data(), &sending)) == ncclSuccess) {
    expect(sending == nullptr, "no connection");
    usleep(1000);
  }
  return result;
}

inline HandleBytes listen_or_learn(const Rank& rank, int listener, void** listening) {
  HandleBytes handle{};
  if (rank.number == listener) {
    succeed(rank.net.listen(0, handle.data(), listening), "listen");
    rank.publish("handle", handle);
  }
  return rank.wait_for("handle");
}

// The host is gone before the connection begins.
inline void run_connect_silent(const Rank& rank) {
  void* listening = nullptr;
  HandleBytes handle = listen_or_learn(rank, 1, &listening);
  await_cut(rank);
  if (rank.number == 0) {
    expect_result(connect_until_failure(rank, handle), ncclRemoteError, "connect");
    rank.publish("over", {});
  } else {
    rank.wait_for("over");
    succeed(rank.net.closeListen(listening), "closeListen");
  }
}

// The host is gone before its program accepts.
inline void run_offer_silent(const Rank& rank) {
  void *listening = nullptr, *sending = nullptr;
  HandleBytes handle = listen_or_learn(rank, 1, &listening);
  if (rank.number == 0) {
    while (greeted_socket() < 0) succeed(rank.net.connect(0, handle.data(), &sending), "connect");
    await_cut(rank);
    expect_result(connect_until_failure(rank, handle), ncclRemoteError, "connect");
    rank.publish("over", {});
  } else {
    await_cut(rank);
    rank.wait_for("over");
    succeed(rank.net.closeListen(listening), "closeListen");
  }
}

// The connecting host is gone before it has read the offer.
inline void run_ready_silent(const Rank& rank) {
  void *listening = nullptr, *sending = nullptr, *receiving = nullptr;
  HandleBytes handle = listen_or_learn(rank, 0, &listening);
  ncclResult_t result = ncclSuccess;
  if (rank.number == 0) {
    while (!rank.has("offered")) succeed(rank.net.accept(listening, &receiving), "accept");
    await_cut(rank);
    while ((result = rank.net.accept(listening, &receiving)) == ncclSuccess) {
      expect(receiving == nullptr, "no connection");
      usleep(1000);
    }
    expect_result(result, ncclRemoteError, "accept");
    succeed(rank.net.closeListen(listening), "closeListen");
  } else {
    while (greeted_socket() < 0) succeed(rank.net.connect(0, handle.data(), &sending), "connect");
    int waiting = 0;
    while (waiting == 0) expect(ioctl(greeted_socket(), FIONREAD, &waiting) == 0, "the bytes that wait");
    rank.publish("offered", {});
    await_cut(rank);
    while (sending == nullptr) succeed(rank.net.connect(0, handle.data(), &sending), "connect");  // reads the offer
    void* request = nullptr;
    while ((result = rank.net.isend(sending, nullptr, 0, 0, nullptr, &request)) == ncclSuccess) usleep(1000);
    expect_result(result, ncclRemoteError, "isend");
    succeed(rank.net.closeSend(sending), "closeSend");
  }
}

// --- a dead plane

// Long messages of rank 0, short answers of rank 1, from before the fault until well after it.
inline void run_dead_plane(const Rank& rank) {
  constexpr std::size_t kSize = (2 << 20) + 5, kAnswer = 1000, kBefore = 20, kAfter = 40;
  const Net& net = rank.net;
  const Pair pair = connect_pairs(rank, 1).front();
  const std::size_t sent = rank.number == 0 ? kSize : kAnswer, room = rank.number == 0 ? kAnswer : kSize;
  Memory from = memory_of(net, pair.sending, sent, 0), to = memory_of(net, pair.receiving, room, 0);
  std::size_t since_cut = 0;
  int received = 1;
  for (std::size_t i = 0; received > 0; ++i) {
    void* receiving = receive_one(net, pair.receiving, to.bytes.data(), room, 0, to.mhandle);
    if (rank.number == 0) {
      fill(from.bytes.data(), sent, i);
      if (i == kBefore) rank.publish("running0", {});
      since_cut += rank.has("cut") ? 1 : 0;
      const std::size_t size = since_cut <= kAfter ? sent : 0;
      finish(net, send_one(net, pair.sending, from.bytes.data(), size, 0, from.mhandle), nullptr);
    }
    finish(net, receiving, &received);
    expect(received == 0 || (static_cast<std::size_t>(received) == room && filled(to.bytes.data(), room, i)),
           "contents");
    if (rank.number == 1) {
      fill(from.bytes.data(), sent, i);
      if (i == kBefore) rank.publish("running1", {});
      const std::size_t size = received > 0 ? sent : 0;
      finish(net, send_one(net, pair.sending, from.bytes.data(), size, 0, from.mhandle), nullptr);
    }
  }
  rank.meet("transferred");
  close_pair(rank, pair);
}
