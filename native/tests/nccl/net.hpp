// The plugin as NCCL sees it, through whichever version of the interface is found first.
#pragma once

#include <dlfcn.h>
#include <sched.h>
#include <unistd.h>

#include <array>
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "nccl/net_api.hpp"

using HandleBytes = std::array<unsigned char, NCCL_NET_HANDLE_MAXSIZE>;

[[noreturn]] inline void give_up(const std::string& what) {
  std::fprintf(stderr, "%s\n", what.c_str());
  std::exit(1);
}

inline void expect(bool condition, const std::string& what) {
  if (!condition) give_up("expected: " + what);
}

inline void expect_result(ncclResult_t got, ncclResult_t wanted, const std::string& what) {
  if (got != wanted) give_up(what + ": result " + std::to_string(got) + ", expected " + std::to_string(wanted));
}

inline void succeed(ncclResult_t got, const std::string& what) { expect_result(got, ncclSuccess, what); }

inline void print_log(ncclDebugLogLevel level, unsigned long, const char*, int, const char* format, ...) {
  if (level != NCCL_LOG_WARN) return;
  va_list arguments;
  va_start(arguments, format);
  std::vfprintf(stderr, format, arguments);
  va_end(arguments);
  std::fputc('\n', stderr);
}

// Calls with the same arguments in all versions, by the names of NCCL.
struct Net {
  int version = 0;
  std::string name;
  void* context = nullptr;
  std::function<ncclResult_t(int*)> devices;
  std::function<ncclResult_t(int, ncclNetProperties_v11_t*)> getProperties;
  std::function<ncclResult_t(int, void*, void**)> listen;
  std::function<ncclResult_t(int, void*, void**)> connect;
  std::function<ncclResult_t(void*, void**)> accept;
  std::function<ncclResult_t(void*, void*, std::size_t, int, void**)> regMr;
  std::function<ncclResult_t(void*, void*, std::size_t, int, std::uint64_t, int, void**)> regMrDmaBuf;
  std::function<ncclResult_t(void*, void*)> deregMr;
  std::function<ncclResult_t(void*, void*, std::size_t, int, void*, void**)> isend;
  std::function<ncclResult_t(void*, int, void**, std::size_t*, int*, void**, void**)> irecv;
  std::function<ncclResult_t(void*, int, void**, int*, void**, void**)> iflush;
  std::function<ncclResult_t(void*, int*, int*)> test;
  std::function<ncclResult_t(void*)> closeSend, closeRecv, closeListen;
  std::function<ncclResult_t(int*, ncclNetVDeviceProps_t*)> makeVDevice;
  std::function<ncclResult_t()> finalize;
};

template <typename Table>
void take_common(Net& net, Table* table) {
  // NCCL calls irecvConsumed for every receive, and getDeviceMr for memory, where they exist: for code on devices.
  expect(table->getDeviceMr == nullptr && table->irecvConsumed == nullptr, "no functions for code on devices");
  net.name = table->name;
  net.devices = table->devices;
  net.accept = [table](void* listening, void** comm) {
    ncclNetDeviceHandle_t* device = nullptr;
    return table->accept(listening, comm, &device);
  };
  net.regMr = table->regMr;
  net.regMrDmaBuf = table->regMrDmaBuf;
  net.deregMr = table->deregMr;
  net.iflush = table->iflush;
  net.test = table->test;
  net.closeSend = table->closeSend;
  net.closeRecv = table->closeRecv;
  net.closeListen = table->closeListen;
  net.finalize = [] { return ncclSuccess; };
}

inline void take(Net& net, ncclNet_v8_t* table) {
  take_common(net, table);
  succeed(table->init(print_log), "init");
  net.getProperties = [table](int dev, ncclNetProperties_v11_t* properties) {
    ncclNetProperties_v8_t old{};
    const ncclResult_t result = table->getProperties(dev, &old);
    properties->name = old.name;
    properties->pciPath = old.pciPath;
    properties->guid = old.guid;
    properties->ptrSupport = old.ptrSupport;
    properties->regIsGlobal = old.regIsGlobal;
    properties->speed = old.speed;
    properties->port = old.port;
    properties->latency = old.latency;
    properties->maxComms = old.maxComms;
    properties->maxRecvs = old.maxRecvs;
    return result;
  };
  net.listen = table->listen;
  net.connect = [table](int dev, void* handle, void** comm) { return table->connect(dev, handle, comm, nullptr); };
  net.isend = [table](void* comm, void* data, std::size_t size, int tag, void* mhandle, void** request) {
    return table->isend(comm, data, static_cast<int>(size), tag, mhandle, request);
  };
  net.irecv = [table](void* comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles, void** request) {
    std::vector<int> narrow;
    for (int i = 0; i < n; ++i) narrow.push_back(static_cast<int>(sizes[i]));
    return table->irecv(comm, n, data, narrow.data(), tags, mhandles, request);
  };
}

inline void take(Net& net, ncclNet_v9_t* table) {
  take_common(net, table);
  succeed(table->init(print_log), "init");
  net.getProperties = [table](int dev, ncclNetProperties_v11_t* properties) {
    return table->getProperties(dev, properties);
  };
  net.listen = table->listen;
  net.connect = [table](int dev, void* handle, void** comm) { return table->connect(dev, handle, comm, nullptr); };
  net.isend = table->isend;
  net.irecv = table->irecv;
  net.makeVDevice = table->makeVDevice;
}

template <typename Table>
void take_profiled(Net& net, Table* table) {
  take_common(net, table);
  net.isend = [table](void* comm, void* data, std::size_t size, int tag, void* mhandle, void** request) {
    return table->isend(comm, data, size, tag, mhandle, nullptr, request);
  };
  net.irecv = [table](void* comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles, void** request) {
    return table->irecv(comm, n, data, sizes, tags, mhandles, nullptr, request);
  };
  net.makeVDevice = table->makeVDevice;
}

inline void take(Net& net, ncclNet_v10_t* table) {
  take_profiled(net, table);
  succeed(table->init(print_log, nullptr), "init");
  net.getProperties = [table](int dev, ncclNetProperties_v11_t* properties) {
    return table->getProperties(dev, properties);
  };
  net.listen = table->listen;
  net.connect = [table](int dev, void* handle, void** comm) {
    ncclNetCommConfig_t config{-1};
    return table->connect(dev, &config, handle, comm, nullptr);
  };
}

inline void take(Net& net, ncclNet_v11_t* table) {
  take_profiled(net, table);
  ncclNetCommConfig_t config{-1};
  void* context = nullptr;
  succeed(table->init(&context, 7, &config, print_log, nullptr), "init");
  expect(context != nullptr, "a context");
  ncclNetAttr_t attributes{};
  succeed(table->setNetAttr(context, &attributes), "setNetAttr");
  net.context = context;
  net.getProperties = table->getProperties;
  net.listen = [table, context](int dev, void* handle, void** comm) {
    return table->listen(context, dev, handle, comm);
  };
  net.connect = [table, context](int dev, void* handle, void** comm) {
    return table->connect(context, dev, handle, comm, nullptr);
  };
  net.finalize = [table, context] { return table->finalize(context); };
}

template <typename Table>
bool find(Net& net, void* library, int version) {
  auto* table = static_cast<Table*>(dlsym(library, ("ncclNetPlugin_v" + std::to_string(version)).c_str()));
  if (table == nullptr) return false;
  net.version = version;
  take(net, table);
  return true;
}

// `newest`: the newest version that this NCCL knows.
inline Net load(const char* plugin, int newest) {
  void* library = dlopen(plugin, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) give_up(dlerror());
  Net net;
  const bool found = (newest >= 11 && find<ncclNet_v11_t>(net, library, 11)) ||
                     (newest >= 10 && find<ncclNet_v10_t>(net, library, 10)) ||
                     (newest >= 9 && find<ncclNet_v9_t>(net, library, 9)) || find<ncclNet_v8_t>(net, library, 8);
  expect(found, "a table of functions");
  return net;
}
