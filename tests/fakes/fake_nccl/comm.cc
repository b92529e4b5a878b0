#include "tests/fakes/fake_nccl/comm.h"

namespace baton::nccl {

void Comm::Start() {
  thread_ = std::thread([this] { Run(); });
}

void Comm::Run() {
  if (!Connect()) return;
  {
    std::lock_guard lock(mutex);
    connected = true;
  }
  while (true) {
    Operation operation;
    {
      std::unique_lock lock(mutex);
      changed.wait(lock, [this] { return aborted || !operations.empty(); });
      if (aborted) return;
      operation = operations.front();
    }
    if (!Carry(operation)) return;
    {
      std::lock_guard lock(mutex);
      operations.pop_front();
    }
    if (operation.stream != nullptr) operation.stream->End();
  }
}

void Comm::Abort() {
  {
    std::lock_guard lock(mutex);
    aborted = true;
    changed.notify_all();
  }
  Interrupt();
  thread_.join();
  for (const Operation& operation : operations) {
    if (operation.stream != nullptr) operation.stream->End();
  }
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return held == 0; });
}

void Comm::Hold() {
  std::lock_guard lock(mutex);
  ++held;
}

void Comm::LetGo() {
  std::lock_guard lock(mutex);
  --held;
  changed.notify_all();
}

Result Comm::Post(Operation operation) {
  std::lock_guard lock(mutex);
  if (error != kSuccess) return error;
  if (!Queues() && (!connected || !operations.empty())) return kInvalidArgument;
  if (operation.stream != nullptr) operation.stream->Begin();
  operations.push_back(std::move(operation));
  changed.notify_all();
  return Queues() ? kSuccess : kInProgress;
}

bool Comm::Fail(Result result, const std::string& why) {
  std::lock_guard lock(mutex);
  if (!aborted) {
    error = result;
    last_error = why;
  }
  return false;
}

bool Comm::WaitForAbort() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [this] { return aborted.load(); });
  return false;
}

}  // namespace baton::nccl
