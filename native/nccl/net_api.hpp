// NCCL's interface for network plugins, versions 8 to 11: names and layouts of NVIDIA/nccl, plugins/net.
//
// NCCL looks for the symbols ncclNetPlugin_v11, ncclNetPlugin_v10 and so on, each a table of functions.
#pragma once

#include <cstddef>
#include <cstdint>

extern "C" {

enum ncclResult_t : int {
  ncclSuccess = 0,
  ncclUnhandledCudaError = 1,
  ncclSystemError = 2,
  ncclInternalError = 3,
  ncclInvalidArgument = 4,
  ncclInvalidUsage = 5,
  ncclRemoteError = 6,
  ncclInProgress = 7,
};

enum ncclDebugLogLevel : int { NCCL_LOG_WARN = 2, NCCL_LOG_INFO = 3 };
enum ncclNetDeviceType : int { NCCL_NET_DEVICE_HOST = 0 };

inline constexpr unsigned long NCCL_NET = 16;  // subsystem of log messages
inline constexpr int NCCL_PTR_HOST = 1;
inline constexpr std::size_t NCCL_NET_HANDLE_MAXSIZE = 128;
inline constexpr int NCCL_NET_MAX_DEVS_PER_NIC = 4;

using ncclDebugLogger_t = void (*)(ncclDebugLogLevel level, unsigned long flags, const char* file, int line,
                                   const char* format, ...);
using ncclProfilerCallback_t = ncclResult_t (*)(void** event, int type, void* parent, std::int64_t plugin, void* data);

struct ncclNetDeviceHandle_t {
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
  void* handle;
  std::size_t size;
  int needsProxyProgress;
};

struct ncclNetVDeviceProps_t {
  int ndevs;
  int devs[NCCL_NET_MAX_DEVS_PER_NIC];
};

struct ncclNetCommConfig_t {
  int trafficClass;
};

struct ncclNetProperties_v8_t {
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
};

struct ncclNetProperties_v9_t {
  char* name;
  char* pciPath;
  std::uint64_t guid;
  int ptrSupport;
  int regIsGlobal;
  int forceFlush;
  int speed;
  int port;
  float latency;
  int maxComms;
  int maxRecvs;
  ncclNetDeviceType netDeviceType;
  int netDeviceVersion;
  ncclNetVDeviceProps_t vProps;
  std::size_t maxP2pBytes;
  std::size_t maxCollBytes;
};

using ncclNetProperties_v10_t = ncclNetProperties_v9_t;

struct ncclNetProperties_v11_t : ncclNetProperties_v9_t {
  int maxMultiRequestSize;
};

struct ncclNetCommAttr_t {
  std::int32_t maxConcurrentPeers;
  std::int32_t minConcurrentPeers;
  std::int32_t maxFlowsPerPeer;
  std::int32_t minFlowsPerPeer;
};

struct ncclNetAttr_t {
  ncclNetCommAttr_t sendCommAttr;
  ncclNetCommAttr_t recvCommAttr;
  std::uint32_t op;
  std::uint32_t algo;
  std::uint32_t proto;
};

struct ncclNet_v8_t {
  const char* name;
  ncclResult_t (*init)(ncclDebugLogger_t log);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v8_t* properties);
  ncclResult_t (*listen)(int dev, void* handle, void** listen_comm);
  ncclResult_t (*connect)(int dev, void* handle, void** send_comm, ncclNetDeviceHandle_t** device_comm);
  ncclResult_t (*accept)(void* listen_comm, void** recv_comm, ncclNetDeviceHandle_t** device_comm);
  ncclResult_t (*regMr)(void* comm, void* data, std::size_t size, int type, void** mhandle);
  ncclResult_t (*regMrDmaBuf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset, int fd,
                              void** mhandle);
  ncclResult_t (*deregMr)(void* comm, void* mhandle);
  ncclResult_t (*isend)(void* send_comm, void* data, int size, int tag, void* mhandle, void** request);
  ncclResult_t (*irecv)(void* recv_comm, int n, void** data, int* sizes, int* tags, void** mhandles, void** request);
  ncclResult_t (*iflush)(void* recv_comm, int n, void** data, int* sizes, void** mhandles, void** request);
  ncclResult_t (*test)(void* request, int* done, int* sizes);
  ncclResult_t (*closeSend)(void* send_comm);
  ncclResult_t (*closeRecv)(void* recv_comm);
  ncclResult_t (*closeListen)(void* listen_comm);
  ncclResult_t (*getDeviceMr)(void* comm, void* mhandle, void** device_mhandle);
  ncclResult_t (*irecvConsumed)(void* recv_comm, int n, void* request);
};

struct ncclNet_v9_t {
  const char* name;
  ncclResult_t (*init)(ncclDebugLogger_t log);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v9_t* properties);
  ncclResult_t (*listen)(int dev, void* handle, void** listen_comm);
  ncclResult_t (*connect)(int dev, void* handle, void** send_comm, ncclNetDeviceHandle_t** device_comm);
  ncclResult_t (*accept)(void* listen_comm, void** recv_comm, ncclNetDeviceHandle_t** device_comm);
  ncclResult_t (*regMr)(void* comm, void* data, std::size_t size, int type, void** mhandle);
  ncclResult_t (*regMrDmaBuf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset, int fd,
                              void** mhandle);
  ncclResult_t (*deregMr)(void* comm, void* mhandle);
  ncclResult_t (*isend)(void* send_comm, void* data, std::size_t size, int tag, void* mhandle, void** request);
  ncclResult_t (*irecv)(void* recv_comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles,
                        void** request);
  ncclResult_t (*iflush)(void* recv_comm, int n, void** data, int* sizes, void** mhandles, void** request);
  ncclResult_t (*test)(void* request, int* done, int* sizes);
  ncclResult_t (*closeSend)(void* send_comm);
  ncclResult_t (*closeRecv)(void* recv_comm);
  ncclResult_t (*closeListen)(void* listen_comm);
  ncclResult_t (*getDeviceMr)(void* comm, void* mhandle, void** device_mhandle);
  ncclResult_t (*irecvConsumed)(void* recv_comm, int n, void* request);
  ncclResult_t (*makeVDevice)(int* dev, ncclNetVDeviceProps_t* properties);
};

struct ncclNet_v10_t {
  const char* name;
  ncclResult_t (*init)(ncclDebugLogger_t log, ncclProfilerCallback_t profiler);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v10_t* properties);
  ncclResult_t (*listen)(int dev, void* handle, void** listen_comm);
  ncclResult_t (*connect)(int dev, ncclNetCommConfig_t* config, void* handle, void** send_comm,
                          ncclNetDeviceHandle_t** device_comm);
  ncclResult_t (*accept)(void* listen_comm, void** recv_comm, ncclNetDeviceHandle_t** device_comm);
  ncclResult_t (*regMr)(void* comm, void* data, std::size_t size, int type, void** mhandle);
  ncclResult_t (*regMrDmaBuf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset, int fd,
                              void** mhandle);
  ncclResult_t (*deregMr)(void* comm, void* mhandle);
  ncclResult_t (*isend)(void* send_comm, void* data, std::size_t size, int tag, void* mhandle, void* phandle,
                        void** request);
  ncclResult_t (*irecv)(void* recv_comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles,
                        void** phandles, void** request);
  ncclResult_t (*iflush)(void* recv_comm, int n, void** data, int* sizes, void** mhandles, void** request);
  ncclResult_t (*test)(void* request, int* done, int* sizes);
  ncclResult_t (*closeSend)(void* send_comm);
  ncclResult_t (*closeRecv)(void* recv_comm);
  ncclResult_t (*closeListen)(void* listen_comm);
  ncclResult_t (*getDeviceMr)(void* comm, void* mhandle, void** device_mhandle);
  ncclResult_t (*irecvConsumed)(void* recv_comm, int n, void* request);
  ncclResult_t (*makeVDevice)(int* dev, ncclNetVDeviceProps_t* properties);
};

struct ncclNet_v11_t {
  const char* name;
  ncclResult_t (*init)(void** context, std::uint64_t comm_id, ncclNetCommConfig_t* config, ncclDebugLogger_t log,
                       ncclProfilerCallback_t profiler);
  ncclResult_t (*devices)(int* count);
  ncclResult_t (*getProperties)(int dev, ncclNetProperties_v11_t* properties);
  ncclResult_t (*listen)(void* context, int dev, void* handle, void** listen_comm);
  ncclResult_t (*connect)(void* context, int dev, void* handle, void** send_comm, ncclNetDeviceHandle_t** device_comm);
  ncclResult_t (*accept)(void* listen_comm, void** recv_comm, ncclNetDeviceHandle_t** device_comm);
  ncclResult_t (*regMr)(void* comm, void* data, std::size_t size, int type, void** mhandle);
  ncclResult_t (*regMrDmaBuf)(void* comm, void* data, std::size_t size, int type, std::uint64_t offset, int fd,
                              void** mhandle);
  ncclResult_t (*deregMr)(void* comm, void* mhandle);
  ncclResult_t (*isend)(void* send_comm, void* data, std::size_t size, int tag, void* mhandle, void* phandle,
                        void** request);
  ncclResult_t (*irecv)(void* recv_comm, int n, void** data, std::size_t* sizes, int* tags, void** mhandles,
                        void** phandles, void** request);
  ncclResult_t (*iflush)(void* recv_comm, int n, void** data, int* sizes, void** mhandles, void** request);
  ncclResult_t (*test)(void* request, int* done, int* sizes);
  ncclResult_t (*closeSend)(void* send_comm);
  ncclResult_t (*closeRecv)(void* recv_comm);
  ncclResult_t (*closeListen)(void* listen_comm);
  ncclResult_t (*getDeviceMr)(void* comm, void* mhandle, void** device_mhandle);
  ncclResult_t (*irecvConsumed)(void* recv_comm, int n, void* request);
  ncclResult_t (*makeVDevice)(int* dev, ncclNetVDeviceProps_t* properties);
  ncclResult_t (*finalize)(void* context);
  ncclResult_t (*setNetAttr)(void* context, ncclNetAttr_t* attributes);
};

}  // extern "C"

// As a C compiler lays them out on 64-bit machines.
static_assert(sizeof(ncclNetProperties_v8_t) == 64);
static_assert(sizeof(ncclNetProperties_v9_t) == 104);
static_assert(sizeof(ncclNetProperties_v11_t) == 112);
