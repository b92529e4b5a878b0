#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <string>
#include <thread>

#include "common/nccl/api.h"
#include "tests/fakes/fake_nccl/fake_stream.h"

namespace baton::nccl {

struct Operation {
  enum class Kind { kSend, kReceive, kSum, kGather } kind = Kind::kSend;
  std::byte* bytes = nullptr;
  size_t count = 0;    // bytes
  std::string action;  // of the script
  FakeStream* stream = nullptr;
};

// A communicator: a thread that connects, then carries out one operation after the other. What
// NCCL's header leaves open is public here.
struct Comm {
  virtual ~Comm() = default;

  void Start();
  // Operations under way end, and those behind them never begin. Then it waits until no graph holds
  // an operation, as NCCL does.
  void Abort();
  // A graph holds one more operation, or lets it go.
  void Hold();
  void LetGo();
  // Takes an operation, unless one of before failed.
  Result Post(Operation operation);
  // Whether an operation may wait behind others; then nothing is ever in progress.
  virtual bool Queues() const = 0;
  // False, and the error that everyone gets from now on.
  bool Fail(Result result, const std::string& why);

  std::mutex mutex;
  std::condition_variable changed;
  std::atomic<bool> aborted{false};
  int held = 0;  // operations, by graphs
  bool connected = false;
  std::deque<Operation> operations;
  Result error = kSuccess;
  std::string last_error;

 protected:
  // Both return false when they failed or were aborted.
  virtual bool Connect() = 0;
  virtual bool Carry(const Operation& operation) = 0;
  // Wakes what waits outside `changed`.
  virtual void Interrupt() {}
  bool WaitForAbort();

 private:
  void Run();
  std::thread thread_;
};

}  // namespace baton::nccl
