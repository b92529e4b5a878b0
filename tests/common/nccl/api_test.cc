// Every declaration of common/nccl/api.h against NCCL's own header. Built where the CUDA
// toolkit is; what is wrong shows when this is compiled.
#include "common/nccl/api.h"

#include <gtest/gtest.h>
#include <nccl.h>

#include <cstddef>
#include <type_traits>

namespace baton::nccl {
namespace {

// Whether a value of `Ours` is passed as one of `Theirs`: the same C type under another name.
template <typename Ours, typename Theirs>
constexpr bool Same() {
  if constexpr (std::is_pointer_v<Ours> || std::is_pointer_v<Theirs>) {
    return std::is_pointer_v<Ours> && std::is_pointer_v<Theirs>;
  } else if constexpr (std::is_enum_v<Ours> || std::is_enum_v<Theirs>) {
    return std::is_enum_v<Ours> && std::is_enum_v<Theirs> && sizeof(Ours) == sizeof(Theirs);
  } else if constexpr (std::is_class_v<Ours> || std::is_class_v<Theirs>) {
    return std::is_class_v<Ours> && std::is_class_v<Theirs> && sizeof(Ours) == sizeof(Theirs) &&
           alignof(Ours) == alignof(Theirs) && std::is_trivially_copyable_v<Ours>;
  } else {
    return std::is_same_v<Ours, Theirs>;
  }
}

template <typename Ours, typename Theirs>
struct SameCall : std::false_type {};
template <typename R1, typename... A1, typename R2, typename... A2>
requires(sizeof...(A1) == sizeof...(A2)) struct SameCall<R1 (*)(A1...), R2 (*)(A2...)>
    : std::bool_constant<Same<R1, R2>() && (Same<A1, A2>() && ...)> {
};

static_assert(SameCall<decltype(Calls::get_version), decltype(&ncclGetVersion)>::value);
static_assert(SameCall<decltype(Calls::get_unique_id), decltype(&ncclGetUniqueId)>::value);
static_assert(
    SameCall<decltype(Calls::comm_init_rank_config), decltype(&ncclCommInitRankConfig)>::value);
static_assert(
    SameCall<decltype(Calls::comm_get_async_error), decltype(&ncclCommGetAsyncError)>::value);
static_assert(SameCall<decltype(Calls::comm_init_all), decltype(&ncclCommInitAll)>::value);
static_assert(SameCall<decltype(Calls::all_reduce), decltype(&ncclAllReduce)>::value);
static_assert(SameCall<decltype(Calls::all_gather), decltype(&ncclAllGather)>::value);
static_assert(SameCall<decltype(Calls::comm_abort), decltype(&ncclCommAbort)>::value);
static_assert(SameCall<decltype(Calls::send), decltype(&ncclSend)>::value);
static_assert(SameCall<decltype(Calls::recv), decltype(&ncclRecv)>::value);
static_assert(SameCall<decltype(Calls::get_error_string), decltype(&ncclGetErrorString)>::value);
static_assert(SameCall<decltype(Calls::get_last_error), decltype(&ncclGetLastError)>::value);
// What must not pass.
static_assert(!SameCall<decltype(Calls::send), decltype(&ncclCommAbort)>::value);
static_assert(!SameCall<decltype(Calls::get_version), decltype(&ncclGetErrorString)>::value);

static_assert(sizeof(UniqueId) == sizeof(ncclUniqueId));
static_assert(kUniqueIdBytes == NCCL_UNIQUE_ID_BYTES);
static_assert(int{kSuccess} == int{ncclSuccess} && int{kSystemError} == int{ncclSystemError});
static_assert(int{kUnhandledCudaError} == int{ncclUnhandledCudaError});
static_assert(int{kInternalError} == int{ncclInternalError});
static_assert(int{kInvalidArgument} == int{ncclInvalidArgument});
static_assert(int{kInvalidUsage} == int{ncclInvalidUsage});
static_assert(int{kRemoteError} == int{ncclRemoteError});
static_assert(int{kInProgress} == int{ncclInProgress});
static_assert(int{kInt8} == int{ncclInt8} && int{kFloat32} == int{ncclFloat32});
static_assert(int{kSum} == int{ncclSum});
static_assert(kUndefined == NCCL_CONFIG_UNDEF_INT);

#define SAME_FIELD(ours, theirs)                                            \
  static_assert(offsetof(Config, ours) == offsetof(ncclConfig_t, theirs) && \
                sizeof(Config::ours) == sizeof(ncclConfig_t::theirs))
static_assert(sizeof(Config) == sizeof(ncclConfig_t));
SAME_FIELD(size, size);
SAME_FIELD(magic, magic);
SAME_FIELD(version, version);
SAME_FIELD(blocking, blocking);
SAME_FIELD(cga_cluster_size, cgaClusterSize);
SAME_FIELD(min_ctas, minCTAs);
SAME_FIELD(max_ctas, maxCTAs);
SAME_FIELD(net_name, netName);
SAME_FIELD(split_share, splitShare);
SAME_FIELD(traffic_class, trafficClass);
SAME_FIELD(comm_name, commName);
SAME_FIELD(collnet_enable, collnetEnable);
SAME_FIELD(cta_policy, CTAPolicy);
SAME_FIELD(shrink_share, shrinkShare);
SAME_FIELD(nvls_ctas, nvlsCTAs);
SAME_FIELD(channels_per_net_peer, nChannelsPerNetPeer);
SAME_FIELD(nvlink_centric_sched, nvlinkCentricSched);
#undef SAME_FIELD

TEST(NcclApiTest, TheDefaultConfigurationIsTheInitializers) {
  const ncclConfig_t theirs = NCCL_CONFIG_INITIALIZER;
  const Config ours;
  EXPECT_EQ(ours.size, theirs.size);
  EXPECT_EQ(ours.magic, theirs.magic);
  EXPECT_EQ(ours.version, theirs.version);
  EXPECT_EQ(ours.blocking, theirs.blocking);
  EXPECT_EQ(ours.nvlink_centric_sched, theirs.nvlinkCentricSched);
}

}  // namespace
}  // namespace baton::nccl
