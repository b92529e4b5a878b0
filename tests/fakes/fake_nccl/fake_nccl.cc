// A shared library with the symbols of libnccl that Baton calls, over host memory and Unix sockets
// between processes: what NCCL does as far as Baton can see. A stream is null or a FakeStream,
// which can be captured.
//
// BATON_FAKE_NCCL, or BatonSetFakeNcclScript, makes it misbehave: a comma list of `Call:action`;
// `Call@N:action` acts on the Nth call only. Calls are GetVersion, GetUniqueId, CommInitRankConfig,
// CommGetAsyncError, CommInitAll, CommAbort, Send, Recv, AllReduce, AllGather. Actions:
//   delay_ms=N   the call takes that long
//   fail         it returns ncclSystemError
//   async        (CommInitRankConfig, Send, Recv, AllReduce, AllGather) the operation fails later
//   never        (likewise) the operation never completes
//   hang         the call does not return
//   die          the process is killed
//   corrupt      (Send) one byte arrives wrong
//   version=N    (GetVersion) the version
#include <cstdlib>
#include <memory>
#include <string>
#include <type_traits>

#include "common/nccl/api.h"
#include "tests/fakes/fake_nccl/group_comm.h"
#include "tests/fakes/fake_nccl/pair_comm.h"
#include "tests/fakes/fake_nccl/script.h"

namespace {

using namespace baton::nccl;

constexpr int kVersion = 22809;

Action Next(const char* call) { return Script::Get().Next(call); }

Result Post(const char* call, Operation operation, Comm* comm) {
  operation.action = Next(call).what;
  if (operation.action == "fail") return kSystemError;
  return comm->Post(std::move(operation));
}

// Queues work over the ranks, or lets a graph keep it.
Result PostOrKeep(const char* call, const Operation& operation, Comm* comm) {
  if (operation.stream == nullptr || !operation.stream->capturing()) {
    return Post(call, operation, comm);
  }
  comm->Hold();
  operation.stream->Keep([comm] { comm->LetGo(); });
  return kSuccess;
}

}  // namespace

extern "C" {

// Not NCCL's: a script for this process from now on.
void BatonSetFakeNcclScript(const char* text) { Script::Get().Set(text); }

Result ncclGetVersion(int* version) {
  const Action action = Next("GetVersion");
  *version = action.what == "version" ? action.value : kVersion;
  return action.what == "fail" ? kSystemError : kSuccess;
}

Result ncclGetUniqueId(UniqueId* id) {
  return Next("GetUniqueId").what == "fail" ? kSystemError : MakeUniqueId(id);
}

Result ncclCommInitRankConfig(Comm** comm, int ranks, UniqueId id, int rank, Config* config) {
  const Action action = Next("CommInitRankConfig");
  if (action.what == "fail") return kSystemError;
  if (ranks != 2 || rank < 0 || rank > 1 || config == nullptr || config->magic != kConfigMagic ||
      config->size != sizeof(Config) || config->blocking != 0) {
    return kInvalidArgument;
  }
  *comm = new PairComm(id, rank, action.what);
  (*comm)->Start();
  return kInProgress;
}

Result ncclCommInitAll(Comm** comms, int count, const int* devices) {
  if (Next("CommInitAll").what == "fail") return kSystemError;
  if (count < 1) return kInvalidArgument;
  const auto meeting = std::make_shared<Meeting>(static_cast<size_t>(count));
  for (int rank = 0; rank < count; ++rank) {
    for (int other = 0; other < rank; ++other) {
      // NCCL makes no group that has a device twice.
      if (devices[rank] == devices[other]) return kInvalidUsage;
    }
  }
  for (int rank = 0; rank < count; ++rank) {
    comms[rank] = new GroupComm(meeting, rank);
    comms[rank]->Start();
  }
  return kSuccess;
}

Result ncclCommGetAsyncError(Comm* comm, Result* error) {
  if (Next("CommGetAsyncError").what == "fail") return kSystemError;
  std::lock_guard lock(comm->mutex);
  const bool idle = comm->Queues() || (comm->connected && comm->operations.empty());
  *error = comm->error != kSuccess ? comm->error : idle ? kSuccess : kInProgress;
  return kSuccess;
}

Result ncclCommAbort(Comm* comm) {
  const Action action = Next("CommAbort");
  comm->Abort();
  delete comm;
  return action.what == "fail" ? kSystemError : kSuccess;
}

Result ncclSend(const void* bytes, size_t count, DataType, int, Comm* comm, Stream) {
  // The sender's thread only reads them.
  auto* const from = static_cast<std::byte*>(const_cast<void*>(bytes));
  return Post("Send", {.kind = Operation::Kind::kSend, .bytes = from, .count = count}, comm);
}

Result ncclRecv(void* bytes, size_t count, DataType, int, Comm* comm, Stream) {
  auto* const to = static_cast<std::byte*>(bytes);
  return Post("Recv", {.kind = Operation::Kind::kReceive, .bytes = to, .count = count}, comm);
}

Result ncclAllReduce(const void* from, void* to, size_t count, DataType type, ReduceOp op,
                     Comm* comm, Stream stream) {
  if (from != to || type != kFloat32 || op != kSum) return kInvalidArgument;
  return PostOrKeep("AllReduce",
                    {.kind = Operation::Kind::kSum,
                     .bytes = static_cast<std::byte*>(to),
                     .count = count * sizeof(float),
                     .stream = static_cast<FakeStream*>(stream)},
                    comm);
}

Result ncclAllGather(const void* from, void* to, size_t count, DataType type, Comm* comm,
                     Stream stream) {
  const auto* const group = dynamic_cast<GroupComm*>(comm);
  if (group == nullptr || type != kFloat32) return kInvalidArgument;
  const size_t part = count * sizeof(float);
  auto* const bytes = static_cast<std::byte*>(to);
  if (from != bytes + group->rank() * part) return kInvalidArgument;  // only in place
  return PostOrKeep("AllGather",
                    {.kind = Operation::Kind::kGather,
                     .bytes = bytes,
                     .count = part * group->ranks(),
                     .stream = static_cast<FakeStream*>(stream)},
                    comm);
}

const char* ncclGetErrorString(Result result) {
  return result == kRemoteError ? "remote process exited or there was a network error"
                                : "unhandled system error (fake)";
}

const char* ncclGetLastError(Comm* comm) {
  static thread_local std::string text;
  std::lock_guard lock(comm->mutex);
  text = comm->last_error;
  return text.c_str();
}

}  // extern "C"

// The table that Baton calls through, which is compared with nccl.h, has these very types.
static_assert(std::is_same_v<decltype(&ncclGetVersion), decltype(Calls::get_version)>);
static_assert(std::is_same_v<decltype(&ncclGetUniqueId), decltype(Calls::get_unique_id)>);
static_assert(
    std::is_same_v<decltype(&ncclCommInitRankConfig), decltype(Calls::comm_init_rank_config)>);
static_assert(std::is_same_v<decltype(&ncclCommInitAll), decltype(Calls::comm_init_all)>);
static_assert(std::is_same_v<decltype(&ncclAllReduce), decltype(Calls::all_reduce)>);
static_assert(std::is_same_v<decltype(&ncclAllGather), decltype(Calls::all_gather)>);
static_assert(
    std::is_same_v<decltype(&ncclCommGetAsyncError), decltype(Calls::comm_get_async_error)>);
static_assert(std::is_same_v<decltype(&ncclCommAbort), decltype(Calls::comm_abort)>);
static_assert(std::is_same_v<decltype(&ncclSend), decltype(Calls::send)>);
static_assert(std::is_same_v<decltype(&ncclRecv), decltype(Calls::recv)>);
static_assert(std::is_same_v<decltype(&ncclGetErrorString), decltype(Calls::get_error_string)>);
static_assert(std::is_same_v<decltype(&ncclGetLastError), decltype(Calls::get_last_error)>);
