#pragma once

#include <climits>
#include <cstddef>

// The part of NCCL's C interface that is called, declared here because NCCL is loaded at run time
// and neither it nor CUDA is there when this is built. tests/common/nccl/api_test.cc compares every
// declaration with nccl.h 2.28.9 where the toolkit is.
namespace baton::nccl {

// A communicator, which is opaque here as in nccl.h: ncclComm_t is a pointer to one.
struct Comm;
using Stream = void*;  // cudaStream_t

constexpr size_t kUniqueIdBytes = 128;
struct UniqueId {
  char internal[kUniqueIdBytes];
};

enum Result : int {
  kSuccess = 0,
  kUnhandledCudaError = 1,
  kSystemError = 2,
  kInternalError = 3,
  kInvalidArgument = 4,
  kInvalidUsage = 5,
  kRemoteError = 6,
  kInProgress = 7,
};

enum DataType : int { kInt8 = 0, kFloat32 = 7 };
enum ReduceOp : int { kSum = 0 };

constexpr unsigned int kConfigMagic = 0xcafebeef;
constexpr int kUndefined = INT_MIN;

// The configuration of a communicator as of NCCL 2.28. A newer library knows by size and version
// which fields are missing.
struct Config {
  size_t size = sizeof(Config);
  unsigned int magic = kConfigMagic;
  unsigned int version = 22809;
  int blocking = kUndefined;
  int cga_cluster_size = kUndefined;
  int min_ctas = kUndefined;
  int max_ctas = kUndefined;
  const char* net_name = nullptr;
  int split_share = kUndefined;
  int traffic_class = kUndefined;
  const char* comm_name = nullptr;
  int collnet_enable = kUndefined;
  int cta_policy = kUndefined;
  int shrink_share = kUndefined;
  int nvls_ctas = kUndefined;
  int channels_per_net_peer = kUndefined;
  int nvlink_centric_sched = kUndefined;
};

// NCCL's functions, each with the name of its symbol.
struct Calls {
  Result (*get_version)(int* version) = nullptr;    // ncclGetVersion
  Result (*get_unique_id)(UniqueId* id) = nullptr;  // ncclGetUniqueId
  Result (*comm_init_rank_config)(Comm** comm, int ranks, UniqueId id, int rank,
                                  Config* config) = nullptr;  // ncclCommInitRankConfig
  // One communicator per device of this process, blocking.
  Result (*comm_init_all)(Comm** comms, int count,
                          const int* devices) = nullptr;                // ncclCommInitAll
  Result (*comm_get_async_error)(Comm* comm, Result* error) = nullptr;  // ncclCommGetAsyncError
  Result (*comm_abort)(Comm* comm) = nullptr;                           // ncclCommAbort
  Result (*send)(const void* bytes, size_t count, DataType type, int peer, Comm* comm,
                 Stream stream) = nullptr;  // ncclSend
  Result (*recv)(void* bytes, size_t count, DataType type, int peer, Comm* comm,
                 Stream stream) = nullptr;  // ncclRecv
  Result (*all_reduce)(const void* from, void* to, size_t count, DataType type, ReduceOp op,
                       Comm* comm, Stream stream) = nullptr;  // ncclAllReduce
  Result (*all_gather)(const void* from, void* to, size_t count, DataType type, Comm* comm,
                       Stream stream) = nullptr;             // ncclAllGather
  const char* (*get_error_string)(Result result) = nullptr;  // ncclGetErrorString
  const char* (*get_last_error)(Comm* comm) = nullptr;       // ncclGetLastError
};

}  // namespace baton::nccl
