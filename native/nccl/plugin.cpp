// The tables of functions that NCCL finds.
#include <array>
#include <cstring>

#include "nccl/bootstrap.hpp"
#include "nccl/live.hpp"
#include "nccl/log.hpp"

namespace openmrc::nccl {
namespace {

constexpr char kName[] = "openmrc";

struct Context {
  std::uint64_t comm_id;
};

struct ListenComm {
  explicit ListenComm(std::shared_ptr<Adapter> adapter) : listener(std::move(adapter)) {}

  std::mutex mutex;
  Listener listener;
};

void abandon_one(void* object, Kind kind) {
  if (kind == Kind::kListen) static_cast<ListenComm*>(object)->listener.abandon();
  if (kind == Kind::kConnector) static_cast<Connector*>(object)->abandon();
  if (kind == Kind::kSend) static_cast<SendComm*>(object)->abandon();
  if (kind == Kind::kReceive) static_cast<RecvComm*>(object)->abandon();
}

// In the child of a fork.
void abandon_all() {
  verbs::for_each_live([](const void* object, verbs::LiveKind kind) {
    abandon_one(const_cast<void*>(object), static_cast<Kind>(kind));
  });
}

// While the library is loaded, before any call.
[[maybe_unused]] const int installed = (install_fork_handlers(abandon_all), 0);

// Behind the handle itself: state of the connecting end, which NCCL passes to each attempt.
Connector** connector_in(void* handle) {
  return reinterpret_cast<Connector**>(static_cast<std::uint8_t*>(handle) + kHandleBytes);
}
static_assert(kHandleBytes + sizeof(Connector*) <= NCCL_NET_HANDLE_MAXSIZE);

[[noreturn]] void refuse(const char* what) { throw Failure{ncclInternalError, what}; }

void need(bool condition, const char* what) {
  if (!condition) refuse(what);
}

template <typename Object>
Object& live(void* object, Kind kind, const char* what) {
  need(is_live(object, kind), what);
  return *static_cast<Object*>(object);
}

SendComm& sender(void* comm) { return live<SendComm>(comm, Kind::kSend, "no send comm"); }
RecvComm& receiver(void* comm) { return live<RecvComm>(comm, Kind::kReceive, "no receive comm"); }

Comm& either(void* comm) {
  if (is_live(comm, Kind::kSend)) return sender(comm);
  return receiver(comm);
}

template <typename Object>
void* handed_out(std::unique_ptr<Object> object, Kind kind) {
  add_live(object.get(), kind);
  return object.release();
}

ncclResult_t init(ncclDebugLogger_t logger) {
  return guarded([&] {
    set_logger(logger);
    find_devices();
    info("using " + std::to_string(device_count()) + " devices of OPENMRC_PORTS or OPENMRC_PATHS");
  });
}

ncclResult_t init_v10(ncclDebugLogger_t logger, ncclProfilerCallback_t) { return init(logger); }

ncclResult_t init_v11(void** context, std::uint64_t comm_id, ncclNetCommConfig_t*, ncclDebugLogger_t logger,
                      ncclProfilerCallback_t) {
  const ncclResult_t result = init(logger);
  if (result != ncclSuccess) return result;
  return guarded([&] {
    need(context != nullptr, "init: no place for the context");
    *context = handed_out(std::make_unique<Context>(Context{comm_id}), Kind::kContext);
  });
}

ncclResult_t finalize(void* context) {
  return guarded([&] {
    need(remove_live(context, Kind::kContext), "finalize: no context");
    delete static_cast<Context*>(context);
  });
}

ncclResult_t devices(int* count) {
  return guarded([&] {
    need(count != nullptr, "devices: no place for the number");
    *count = device_count();
  });
}

ncclResult_t properties_v11(int dev, ncclNetProperties_v11_t* properties) {
  return guarded([&] {
    need(properties != nullptr, "getProperties: no place for them");
    describe_device(dev, *properties);
  });
}

ncclResult_t properties_v9(int dev, ncclNetProperties_v9_t* properties) {
  ncclNetProperties_v11_t all{};
  const ncclResult_t result = properties_v11(dev, properties == nullptr ? nullptr : &all);
  if (result == ncclSuccess) *properties = all;
  return result;
}

ncclResult_t properties_v8(int dev, ncclNetProperties_v8_t* properties) {
  ncclNetProperties_v11_t all{};
  const ncclResult_t result = properties_v11(dev, properties == nullptr ? nullptr : &all);
  if (result == ncclSuccess) {
    *properties = {all.name, all.pciPath, all.guid,     all.ptrSupport, all.regIsGlobal,   all.speed,
                   all.port, all.latency, all.maxComms, all.maxRecvs,   all.netDeviceType, all.netDeviceVersion};
  }
  return result;
}

ncclResult_t listen(int dev, void* handle, void** listen_comm) {
  return guarded([&] {
    need(handle != nullptr && listen_comm != nullptr, "listen: no place for the handle or the comm");
    auto made = std::make_unique<ListenComm>(adapter_of(dev));
    std::memset(handle, 0, NCCL_NET_HANDLE_MAXSIZE);
    made->listener.write_handle({static_cast<std::uint8_t*>(handle), kHandleBytes});
    *listen_comm = handed_out(std::move(made), Kind::kListen);
  });
}

ncclResult_t listen_v11(void* context, int dev, void* handle, void** listen_comm) {
  if (!is_live(context, Kind::kContext)) return guarded([] { refuse("listen: no context"); });
  return listen(dev, handle, listen_comm);
}

ncclResult_t connect(int dev, void* handle, void** send_comm, ncclNetDeviceHandle_t** device_comm) {
  return guarded([&] {
    need(handle != nullptr && send_comm != nullptr, "connect: no handle, or no place for the comm");
    *send_comm = nullptr;
    if (device_comm != nullptr) *device_comm = nullptr;
    Connector*& connector = *connector_in(handle);
    if (connector == nullptr) {
      Handle to;
      need(read_handle({static_cast<std::uint8_t*>(handle), kHandleBytes}, to), "connect: not a handle of this plugin");
      connector = new Connector(adapter_of(dev), to);
      add_live(connector, Kind::kConnector);
    }
    need(is_live(connector, Kind::kConnector), "connect: the handle was used up, or is none");
    const auto end = [&] {
      remove_live(connector, Kind::kConnector);
      delete std::exchange(connector, nullptr);
    };
    try {
      std::unique_ptr<SendComm> comm = connector->step();
      if (comm == nullptr) return;
      *send_comm = handed_out(std::move(comm), Kind::kSend);
    } catch (...) {
      end();
      throw;
    }
    end();
  });
}

ncclResult_t connect_v10(int dev, ncclNetCommConfig_t*, void* handle, void** send_comm,
                         ncclNetDeviceHandle_t** device_comm) {
  return connect(dev, handle, send_comm, device_comm);
}

ncclResult_t connect_v11(void* context, int dev, void* handle, void** send_comm, ncclNetDeviceHandle_t** device_comm) {
  if (!is_live(context, Kind::kContext)) return guarded([] { refuse("connect: no context"); });
  return connect(dev, handle, send_comm, device_comm);
}

ncclResult_t accept(void* listen_comm, void** recv_comm, ncclNetDeviceHandle_t** device_comm) {
  return guarded([&] {
    need(recv_comm != nullptr, "accept: no place for the comm");
    *recv_comm = nullptr;
    if (device_comm != nullptr) *device_comm = nullptr;
    auto& listening = live<ListenComm>(listen_comm, Kind::kListen, "accept: no listen comm");
    const std::lock_guard guard(listening.mutex);
    std::unique_ptr<RecvComm> comm = listening.listener.accept();
    if (comm != nullptr) *recv_comm = handed_out(std::move(comm), Kind::kReceive);
  });
}

ncclResult_t register_memory(void* comm, void* data, std::size_t size, int type, void** mhandle) {
  return guarded([&] {
    need(mhandle != nullptr, "regMr: no place for the handle");
    *mhandle = nullptr;
    need(data != nullptr && size > 0, "regMr: no memory");
    if (type != NCCL_PTR_HOST) {
      throw Failure{ncclInternalError, "regMr: memory of type " + std::to_string(type) +
                                           ": only host memory (1) is allowed, as ptrSupport of the device says"};
    }
    *mhandle = either(comm).register_memory(data, size);
  });
}

ncclResult_t register_dma_buffer(void*, void*, std::size_t, int, std::uint64_t, int, void** mhandle) {
  if (mhandle != nullptr) *mhandle = nullptr;
  return guarded([] { refuse("regMrDmaBuf: only host memory is allowed, as ptrSupport of the device says"); });
}

ncclResult_t deregister_memory(void* comm, void* mhandle) {
  return guarded([&] { either(comm).deregister_memory(static_cast<Region*>(mhandle)); });
}

ncclResult_t send(void* comm, void* data, std::size_t size, int tag, void* mhandle, void** request) {
  return guarded([&] {
    need(request != nullptr, "isend: no place for the request");
    *request = nullptr;
    *request = sender(comm).send(data, size, tag, mhandle);
  });
}

ncclResult_t send_v8(void* comm, void* data, int size, int tag, void* mhandle, void** request) {
  if (size < 0) return guarded([] { refuse("isend: negative size"); });
  return send(comm, data, static_cast<std::size_t>(size), tag, mhandle, request);
}

ncclResult_t send_v10(void* comm, void* data, std::size_t size, int tag, void* mhandle, void*, void** request) {
  return send(comm, data, size, tag, mhandle, request);
}

ncclResult_t receive(void* comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles, void** request) {
  return guarded([&] {
    need(request != nullptr, "irecv: no place for the request");
    *request = nullptr;
    need(n >= 1 && n <= static_cast<int>(kGroupMax), "irecv: a group has 1 to 8 receives");
    need(data != nullptr && sizes != nullptr && tags != nullptr && mhandles != nullptr, "irecv: an array is missing");
    const auto count = static_cast<std::size_t>(n);
    *request = receiver(comm).receive({data, count}, {sizes, count}, {tags, count}, {mhandles, count});
  });
}

ncclResult_t receive_v8(void* comm, int n, void** data, int* sizes, int* tags, void** mhandles, void** request) {
  std::array<std::size_t, kGroupMax> wide{};
  if (n > static_cast<int>(kGroupMax) || sizes == nullptr)
    return guarded([] { refuse("irecv: a group has 1 to 8 receives"); });
  for (int i = 0; i < n; ++i) {
    if (sizes[i] < 0) return guarded([] { refuse("irecv: negative size"); });
    wide[static_cast<std::size_t>(i)] = static_cast<std::size_t>(sizes[i]);
  }
  return receive(comm, n, data, wide.data(), tags, mhandles, request);
}

ncclResult_t receive_v10(void* comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles, void**,
                         void** request) {
  return receive(comm, n, data, sizes, tags, mhandles, request);
}

// Data in host memory is visible when its request is done.
ncclResult_t flush(void* comm, int, void**, int*, void**, void** request) {
  return guarded([&] {
    need(request != nullptr, "iflush: no place for the request");
    *request = nullptr;
    receiver(comm).check_process();
  });
}

ncclResult_t test(void* request, int* done, int* sizes) {
  return guarded([&] {
    need(done != nullptr, "test: no place for the answer");
    *done = 0;
    auto& waiting = live<Request>(request, Kind::kRequest, "test: no request");
    *done = waiting.comm->test(&waiting, sizes) ? 1 : 0;
  });
}

ncclResult_t close_send(void* comm) {
  return guarded([&] {
    const std::unique_ptr<SendComm> owned(&sender(comm));
    remove_live(comm, Kind::kSend);
    owned->close();
  });
}

ncclResult_t close_receive(void* comm) {
  return guarded([&] {
    const std::unique_ptr<RecvComm> owned(&receiver(comm));
    remove_live(comm, Kind::kReceive);
    owned->close();
  });
}

ncclResult_t close_listen(void* comm) {
  return guarded([&] {
    need(remove_live(comm, Kind::kListen), "closeListen: no listen comm");
    delete static_cast<ListenComm*>(comm);
  });
}

ncclResult_t make_virtual(int* dev, ncclNetVDeviceProps_t* wanted) {
  return guarded([&] {
    need(dev != nullptr && wanted != nullptr, "makeVDevice: no devices, or no place for the number");
    *dev = merge_devices(*wanted);
  });
}

// Advice about numbers of flows, which a multipath transport does not depend on.
ncclResult_t set_attributes(void* context, ncclNetAttr_t*) {
  return guarded([&] { need(is_live(context, Kind::kContext), "setNetAttr: no context"); });
}

}  // namespace
}  // namespace openmrc::nccl

#define OPENMRC_EXPORT __attribute__((visibility("default")))

// Not constant: NCCL takes the tables by pointers to mutable ones. It calls irecvConsumed on every receive of a plugin
// that has it, with or without code for devices.
namespace own = openmrc::nccl;

extern "C" {

OPENMRC_EXPORT ncclNet_v8_t ncclNetPlugin_v8 = {own::kName,
                                                own::init,
                                                own::devices,
                                                own::properties_v8,
                                                own::listen,
                                                own::connect,
                                                own::accept,
                                                own::register_memory,
                                                own::register_dma_buffer,
                                                own::deregister_memory,
                                                own::send_v8,
                                                own::receive_v8,
                                                own::flush,
                                                own::test,
                                                own::close_send,
                                                own::close_receive,
                                                own::close_listen,
                                                nullptr,   // getDeviceMr
                                                nullptr};  // irecvConsumed

OPENMRC_EXPORT ncclNet_v9_t ncclNetPlugin_v9 = {own::kName,
                                                own::init,
                                                own::devices,
                                                own::properties_v9,
                                                own::listen,
                                                own::connect,
                                                own::accept,
                                                own::register_memory,
                                                own::register_dma_buffer,
                                                own::deregister_memory,
                                                own::send,
                                                own::receive,
                                                own::flush,
                                                own::test,
                                                own::close_send,
                                                own::close_receive,
                                                own::close_listen,
                                                nullptr,  // getDeviceMr
                                                nullptr,  // irecvConsumed
                                                own::make_virtual};

OPENMRC_EXPORT ncclNet_v10_t ncclNetPlugin_v10 = {own::kName,
                                                  own::init_v10,
                                                  own::devices,
                                                  own::properties_v9,
                                                  own::listen,
                                                  own::connect_v10,
                                                  own::accept,
                                                  own::register_memory,
                                                  own::register_dma_buffer,
                                                  own::deregister_memory,
                                                  own::send_v10,
                                                  own::receive_v10,
                                                  own::flush,
                                                  own::test,
                                                  own::close_send,
                                                  own::close_receive,
                                                  own::close_listen,
                                                  nullptr,  // getDeviceMr
                                                  nullptr,  // irecvConsumed
                                                  own::make_virtual};

OPENMRC_EXPORT ncclNet_v11_t ncclNetPlugin_v11 = {own::kName,
                                                  own::init_v11,
                                                  own::devices,
                                                  own::properties_v11,
                                                  own::listen_v11,
                                                  own::connect_v11,
                                                  own::accept,
                                                  own::register_memory,
                                                  own::register_dma_buffer,
                                                  own::deregister_memory,
                                                  own::send_v10,
                                                  own::receive_v10,
                                                  own::flush,
                                                  own::test,
                                                  own::close_send,
                                                  own::close_receive,
                                                  own::close_listen,
                                                  nullptr,  // getDeviceMr
                                                  nullptr,  // irecvConsumed
                                                  own::make_virtual,
                                                  own::finalize,
                                                  own::set_attributes};

}  // extern "C"
