// Two processes that exchange handles through files, and their connections.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cstring>

#include "tests/nccl/net.hpp"

struct Rank {
  Net net;
  int number = 0;
  std::string directory;

  void publish(const std::string& name, const HandleBytes& bytes) const {
    const std::string path = directory + "/" + name;
    const int fd = open((path + ".new").c_str(), O_CREAT | O_WRONLY | O_EXCL, 0600);
    expect(write(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "a written file");
    close(fd);
    expect(rename((path + ".new").c_str(), path.c_str()) == 0, "a renamed file");
  }

  HandleBytes wait_for(const std::string& name) const {
    HandleBytes bytes{};
    int fd = -1;
    while ((fd = open((directory + "/" + name).c_str(), O_RDONLY)) < 0) usleep(1000);
    expect(read(fd, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()), "a whole file");
    close(fd);
    return bytes;
  }

  bool has(const std::string& name) const { return access((directory + "/" + name).c_str(), F_OK) == 0; }

  void meet(const std::string& name) const {
    publish(name + std::to_string(number), {});
    wait_for(name + std::to_string(1 - number));
  }
};

// Connections both ways between two ranks.
struct Pair {
  void* sending = nullptr;
  void* receiving = nullptr;
};

inline std::vector<Pair> connect_pairs(const Rank& rank, std::size_t count, int dev = 0,
                                       const std::string& name = "handle") {
  std::vector<void*> listening(count);
  std::vector<HandleBytes> theirs(count);
  for (std::size_t i = 0; i < count; ++i) {
    HandleBytes own{};
    succeed(rank.net.listen(dev, own.data(), &listening[i]), "listen");
    rank.publish(name + std::to_string(i) + "of" + std::to_string(rank.number), own);
  }
  for (std::size_t i = 0; i < count; ++i) {
    theirs[i] = rank.wait_for(name + std::to_string(i) + "of" + std::to_string(1 - rank.number));
  }
  std::vector<Pair> pairs(count);
  for (bool waiting = true; waiting;) {
    waiting = false;
    for (std::size_t i = 0; i < count; ++i) {
      Pair& pair = pairs[i];
      if (pair.sending == nullptr) succeed(rank.net.connect(dev, theirs[i].data(), &pair.sending), "connect");
      if (pair.receiving == nullptr) succeed(rank.net.accept(listening[i], &pair.receiving), "accept");
      waiting = waiting || pair.sending == nullptr || pair.receiving == nullptr;
    }
  }
  for (void* one : listening) succeed(rank.net.closeListen(one), "closeListen");
  return pairs;
}

// Connections of a process to itself.
inline Pair connect_to_self(const Net& net) {
  HandleBytes handle{};
  Pair pair;
  void* listening = nullptr;
  succeed(net.listen(0, handle.data(), &listening), "listen");
  while (pair.sending == nullptr || pair.receiving == nullptr) {
    if (pair.sending == nullptr) succeed(net.connect(0, handle.data(), &pair.sending), "connect");
    if (pair.receiving == nullptr) succeed(net.accept(listening, &pair.receiving), "accept");
  }
  succeed(net.closeListen(listening), "closeListen");
  return pair;
}

inline void close_pair(const Rank& rank, const Pair& pair) {
  succeed(rank.net.closeSend(pair.sending), "closeSend");
  succeed(rank.net.closeRecv(pair.receiving), "closeRecv");
}

struct Memory {
  std::vector<std::uint8_t> bytes;
  void* mhandle = nullptr;
};

inline void fill(std::uint8_t* data, std::size_t size, std::uint64_t seed) {
  for (std::size_t i = 0; i < size; i += 8) {
    const std::uint64_t word = (i + seed) * 0x9E37'79B9'7F4A'7C15ULL;
    std::memcpy(data + i, &word, size - i < 8 ? size - i : 8);
  }
}

inline bool filled(const std::uint8_t* data, std::size_t size, std::uint64_t seed) {
  for (std::size_t i = 0; i < size; i += 8) {
    const std::uint64_t word = (i + seed) * 0x9E37'79B9'7F4A'7C15ULL;
    if (std::memcmp(data + i, &word, size - i < 8 ? size - i : 8) != 0) return false;
  }
  return true;
}

inline Memory memory_of(const Net& net, void* comm, std::size_t size, std::uint8_t value) {
  Memory memory{std::vector<std::uint8_t>(size, value), nullptr};
  succeed(net.regMr(comm, memory.bytes.data(), size, NCCL_PTR_HOST, &memory.mhandle), "regMr");
  return memory;
}

inline void* send_one(const Net& net, void* comm, void* data, std::size_t size, int tag, void* mhandle) {
  void* request = nullptr;
  while (request == nullptr) succeed(net.isend(comm, data, size, tag, mhandle, &request), "isend");
  return request;
}

inline void* receive_one(const Net& net, void* comm, void* data, std::size_t size, int tag, void* mhandle) {
  void* request = nullptr;
  while (request == nullptr) succeed(net.irecv(comm, 1, &data, &size, &tag, &mhandle, &request), "irecv");
  return request;
}

inline void finish(const Net& net, void* request, int* sizes) {
  int done = 0;
  while (done == 0) succeed(net.test(request, &done, sizes), "test");
}

// Result of the first call that does not succeed.
inline ncclResult_t await_failure(const Net& net, void* request) {
  int done = 0;
  ncclResult_t result = ncclSuccess;
  while (result == ncclSuccess && done == 0) {
    result = net.test(request, &done, nullptr);
    usleep(100);
  }
  expect(done == 0, "a request that fails");
  return result;
}

// True once the peer is reported as gone.
inline bool has_failed(const Net& net, void* request) {
  int done = 0;
  const ncclResult_t result = net.test(request, &done, nullptr);
  expect(done == 0 && (result == ncclSuccess || result == ncclRemoteError), "a request that fails");
  return result == ncclRemoteError;
}

inline void send_to_self(const Net& net, const Pair& pair, std::uint64_t seed) {
  constexpr std::size_t kSize = 100'000;
  Memory from = memory_of(net, pair.sending, kSize, 0), to = memory_of(net, pair.receiving, kSize, 0);
  fill(from.bytes.data(), kSize, seed);
  void* request = receive_one(net, pair.receiving, to.bytes.data(), kSize, 1, to.mhandle);
  finish(net, send_one(net, pair.sending, from.bytes.data(), kSize, 1, from.mhandle), nullptr);
  finish(net, request, nullptr);
  expect(filled(to.bytes.data(), kSize, seed), "the contents");
  succeed(net.deregMr(pair.sending, from.mhandle), "deregMr");
  succeed(net.deregMr(pair.receiving, to.mhandle), "deregMr");
}
