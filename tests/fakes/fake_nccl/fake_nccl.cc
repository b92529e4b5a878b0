// A shared library with the symbols of libnccl that Baton calls, over host memory and Unix sockets
// between processes: what NCCL does as far as the transport can see. Streams are ignored; a
// communicator is in progress until its operations are over.
//
// BATON_FAKE_NCCL makes it misbehave: a comma list of `Call:action`; `Call@N:action` acts on the
// Nth call only. Calls are GetVersion, GetUniqueId, CommInitRankConfig, CommGetAsyncError,
// CommAbort, Send, Recv. Actions:
//   delay_ms=N   the call takes that long
//   fail         it returns ncclSystemError
//   async        (CommInitRankConfig, Send, Recv) the operation fails later
//   never        (likewise) the operation never completes
//   hang         the call does not return
//   die          the process is killed
//   corrupt      (Send) one byte arrives wrong
//   version=N    (GetVersion) the version
#include <poll.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <map>
#include <mutex>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "common/transport/nccl_api.h"

namespace {

using namespace baton::nccl;

constexpr int kVersion = 22809;
constexpr int kPollMs = 5;

struct Action {
  std::string what;
  int value = 0;
};

// BATON_FAKE_NCCL, read once.
class Script final {
 public:
  Script() {
    const char* const text = std::getenv("BATON_FAKE_NCCL");
    std::istringstream in(text == nullptr ? "" : text);
    for (std::string item; std::getline(in, item, ',');) {
      const size_t colon = item.find(':');
      if (colon == std::string::npos) continue;
      std::string call = item.substr(0, colon);
      const size_t at = call.find('@');
      const int number = at == std::string::npos ? 0 : std::atoi(call.c_str() + at + 1);
      const std::string action = item.substr(colon + 1);
      const size_t equals = action.find('=');
      const int value = equals == std::string::npos ? 0 : std::atoi(action.c_str() + equals + 1);
      rules_.push_back({call.substr(0, at), number, {action.substr(0, equals), value}});
    }
  }

  // What this call is to do; delays, hangs and deaths happen here.
  Action Next(const std::string& call) {
    Action found;
    {
      std::lock_guard lock(mutex_);
      const int number = ++counts_[call];
      for (const Rule& rule : rules_) {
        if (rule.call == call && (rule.number == 0 || rule.number == number)) found = rule.action;
      }
    }
    if (found.what == "delay_ms")
      std::this_thread::sleep_for(std::chrono::milliseconds(found.value));
    if (found.what == "die") kill(getpid(), SIGKILL);
    while (found.what == "hang") pause();
    return found;
  }

 private:
  struct Rule {
    std::string call;
    int number = 0;
    Action action;
  };
  std::mutex mutex_;
  std::vector<Rule> rules_;
  std::map<std::string, int> counts_;
};

Script& TheScript() {
  static auto* const script = new Script;  // outlives threads that hang
  return *script;
}

sockaddr_un AddressOf(const UniqueId& id, socklen_t* size) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  // Abstract: nothing is left behind.
  const std::string name = "baton-fake-nccl-" + std::string(id.internal, 32);
  std::memcpy(address.sun_path + 1, name.data(), name.size());
  *size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  return address;
}

// Listening sockets by id, until rank 0 takes them.
std::mutex listeners_mutex;
std::map<std::string, int>& Listeners() {
  static auto* const listeners = new std::map<std::string, int>;
  return *listeners;
}

struct Operation {
  bool is_send = false;
  std::byte* bytes = nullptr;
  size_t count = 0;
  std::string action;
};

}  // namespace

namespace baton::nccl {

struct Comm {
  explicit Comm(const UniqueId& unique_id, int own_rank, std::string how)
      : id(unique_id), rank(own_rank), action(std::move(how)) {}

  void Run() {
    if (!Connect()) return;
    while (true) {
      Operation operation;
      {
        std::unique_lock lock(mutex);
        changed.wait(lock, [this] { return aborted || !operations.empty(); });
        if (aborted) return;
        operation = operations.front();
      }
      const bool good = Carry(operation);
      std::lock_guard lock(mutex);
      if (!good) return;
      operations.pop_front();
    }
  }

  bool Fail(Result result, const std::string& why) {
    std::lock_guard lock(mutex);
    if (!aborted) {
      error = result;
      last_error = why;
    }
    return false;
  }
  bool WaitForAbort() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [this] { return aborted.load(); });
    return false;
  }

  bool Connect() {
    if (action == "never") return WaitForAbort();
    if (action == "async") return Fail(kSystemError, "the script says so");
    socklen_t size = 0;
    const sockaddr_un address = AddressOf(id, &size);
    if (rank == 0) {
      int listener = -1;
      {
        std::lock_guard lock(listeners_mutex);
        listener = Listeners()[std::string(id.internal, 32)];
        Listeners().erase(std::string(id.internal, 32));
      }
      const bool there = Ready(listener, POLLIN);
      if (there) fd = accept(listener, nullptr, nullptr);
      close(listener);
    } else {
      fd = socket(AF_UNIX, SOCK_STREAM, 0);
      if (connect(fd, reinterpret_cast<const sockaddr*>(&address), size) != 0) {
        return Fail(kRemoteError, "nobody listens");
      }
    }
    if (fd < 0 || aborted) return false;
    std::lock_guard lock(mutex);
    connected = true;
    return true;
  }

  // False when aborted.
  bool Ready(int descriptor, int16_t events) {
    while (!aborted) {
      pollfd entry{descriptor, events, 0};
      if (poll(&entry, 1, kPollMs) > 0) return true;
    }
    return false;
  }

  bool Move(bool is_send, std::byte* bytes, size_t count) {
    while (count > 0) {
      if (!Ready(fd, is_send ? POLLOUT : POLLIN)) return false;
      const ssize_t moved = is_send ? send(fd, bytes, count, MSG_NOSIGNAL | MSG_DONTWAIT)
                                    : recv(fd, bytes, count, MSG_DONTWAIT);
      if (moved < 0 && (errno == EAGAIN || errno == EINTR)) continue;
      if (moved <= 0) return Fail(kRemoteError, "the peer is gone");
      bytes += moved;
      count -= static_cast<size_t>(moved);
    }
    return true;
  }

  bool Carry(const Operation& operation) {
    if (operation.action == "never") return WaitForAbort();
    if (operation.action == "async") return Fail(kSystemError, "the script says so");
    uint64_t size = operation.count;
    if (!Move(operation.is_send, reinterpret_cast<std::byte*>(&size), sizeof size)) return false;
    if (size != operation.count) {
      return Fail(kInvalidUsage, "a send of " + std::to_string(size) + " bytes met a receive of " +
                                     std::to_string(operation.count));
    }
    if (operation.action != "corrupt") {
      return Move(operation.is_send, operation.bytes, operation.count);
    }
    std::vector<std::byte> copy(operation.bytes, operation.bytes + operation.count);
    copy.back() ^= std::byte{0x40};
    copy[copy.size() / 2] ^= std::byte{0x01};
    return Move(true, copy.data(), copy.size());
  }

  const UniqueId id;
  const int rank;
  const std::string action;
  int fd = -1;
  std::atomic<bool> aborted{false};
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<Operation> operations;
  bool connected = false;
  Result error = kSuccess;
  std::string last_error;
  std::thread thread;
};

}  // namespace baton::nccl

namespace {

Result Post(const char* call, bool is_send, std::byte* bytes, size_t count, Comm* comm) {
  const Action action = TheScript().Next(call);
  if (action.what == "fail") return kSystemError;
  std::lock_guard lock(comm->mutex);
  if (comm->error != kSuccess) return comm->error;
  // As NCCL: not before the last call is through.
  if (!comm->connected || !comm->operations.empty()) return kInvalidArgument;
  comm->operations.push_back({is_send, bytes, count, action.what});
  comm->changed.notify_all();
  return kInProgress;
}

}  // namespace

extern "C" {

Result ncclGetVersion(int* version) {
  const Action action = TheScript().Next("GetVersion");
  *version = action.what == "version" ? action.value : kVersion;
  return action.what == "fail" ? kSystemError : kSuccess;
}

Result ncclGetUniqueId(UniqueId* id) {
  if (TheScript().Next("GetUniqueId").what == "fail") return kSystemError;
  unsigned char random[16];
  if (getrandom(random, sizeof random, 0) != static_cast<ssize_t>(sizeof random))
    return kSystemError;
  *id = {};
  for (size_t i = 0; i < sizeof random; ++i) {
    id->internal[2 * i] = static_cast<char>('a' + random[i] / 16);
    id->internal[2 * i + 1] = static_cast<char>('a' + random[i] % 16);
  }
  socklen_t size = 0;
  const sockaddr_un address = AddressOf(*id, &size);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  if (bind(listener, reinterpret_cast<const sockaddr*>(&address), size) != 0 ||
      listen(listener, 1) != 0) {
    close(listener);
    return kSystemError;
  }
  std::lock_guard lock(listeners_mutex);
  Listeners()[std::string(id->internal, 32)] = listener;
  return kSuccess;
}

Result ncclCommInitRankConfig(Comm** comm, int ranks, UniqueId id, int rank, Config* config) {
  const Action action = TheScript().Next("CommInitRankConfig");
  if (action.what == "fail") return kSystemError;
  if (ranks != 2 || rank < 0 || rank > 1 || config == nullptr || config->magic != kConfigMagic ||
      config->size != sizeof(Config) || config->blocking != 0) {
    return kInvalidArgument;
  }
  *comm = new Comm(id, rank, action.what);
  (*comm)->thread = std::thread([made = *comm] { made->Run(); });
  return kInProgress;
}

Result ncclCommGetAsyncError(Comm* comm, Result* error) {
  if (TheScript().Next("CommGetAsyncError").what == "fail") return kSystemError;
  std::lock_guard lock(comm->mutex);
  const bool idle = comm->connected && comm->operations.empty();
  *error = comm->error != kSuccess ? comm->error : idle ? kSuccess : kInProgress;
  return kSuccess;
}

Result ncclCommAbort(Comm* comm) {
  const Action action = TheScript().Next("CommAbort");
  {
    std::lock_guard lock(comm->mutex);
    comm->aborted = true;
    comm->changed.notify_all();
  }
  comm->thread.join();
  if (comm->fd >= 0) close(comm->fd);
  delete comm;
  return action.what == "fail" ? kSystemError : kSuccess;
}

Result ncclSend(const void* bytes, size_t count, DataType, int, Comm* comm, Stream) {
  // The sender's thread only reads them.
  return Post("Send", true, static_cast<std::byte*>(const_cast<void*>(bytes)), count, comm);
}

Result ncclRecv(void* bytes, size_t count, DataType, int, Comm* comm, Stream) {
  return Post("Recv", false, static_cast<std::byte*>(bytes), count, comm);
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
static_assert(
    std::is_same_v<decltype(&ncclCommGetAsyncError), decltype(Calls::comm_get_async_error)>);
static_assert(std::is_same_v<decltype(&ncclCommAbort), decltype(Calls::comm_abort)>);
static_assert(std::is_same_v<decltype(&ncclSend), decltype(Calls::send)>);
static_assert(std::is_same_v<decltype(&ncclRecv), decltype(Calls::recv)>);
static_assert(std::is_same_v<decltype(&ncclGetErrorString), decltype(Calls::get_error_string)>);
static_assert(std::is_same_v<decltype(&ncclGetLastError), decltype(Calls::get_last_error)>);
