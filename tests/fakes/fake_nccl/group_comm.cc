#include "tests/fakes/fake_nccl/group_comm.h"

#include <algorithm>

namespace baton::nccl {
namespace {

void AddUp(Meeting& meeting) {
  for (size_t i = 0; i < meeting.values[0].size(); ++i) {
    float sum = meeting.values[0][i];
    for (size_t rank = 1; rank < meeting.values.size(); ++rank) sum += meeting.values[rank][i];
    for (const std::span<float> values : meeting.values) values[i] = sum;
  }
}

void Exchange(Meeting& meeting) {
  const size_t part = meeting.values[0].size() / meeting.values.size();
  for (size_t rank = 0; rank < meeting.values.size(); ++rank) {
    const std::span<float> own = meeting.values[rank].subspan(rank * part, part);
    for (const std::span<float> values : meeting.values) {
      if (values.data() != meeting.values[rank].data()) {
        std::ranges::copy(own, values.begin() + static_cast<ptrdiff_t>(rank * part));
      }
    }
  }
}

// Demands the meeting's mutex.
void Work(Meeting& meeting, Operation::Kind kind) {
  const size_t count = meeting.values[0].size();
  meeting.fits = std::ranges::all_of(
      meeting.values, [count](std::span<float> values) { return values.size() == count; });
  if (!meeting.fits) return;
  kind == Operation::Kind::kGather ? Exchange(meeting) : AddUp(meeting);
}

}  // namespace

bool GroupComm::Carry(const Operation& operation) {
  if (operation.action == "never") return WaitForAbort();
  if (operation.action == "async") return Fail(kSystemError, "the script says so");
  std::unique_lock lock(meeting->mutex);
  meeting->values[rank_] = {reinterpret_cast<float*>(operation.bytes),
                            operation.count / sizeof(float)};
  const uint64_t number = meeting->number;
  if (++meeting->come == meeting->values.size()) {
    Work(*meeting, operation.kind);
    meeting->come = 0;
    ++meeting->number;
    meeting->changed.notify_all();
  }
  meeting->changed.wait(lock, [&] { return meeting->number != number || aborted; });
  if (meeting->number == number) return false;
  const bool fits = meeting->fits;
  lock.unlock();
  return fits || Fail(kInvalidUsage, "the ranks came with unequal numbers of values");
}

void GroupComm::Interrupt() {
  std::lock_guard lock(meeting->mutex);
  meeting->changed.notify_all();
}

}  // namespace baton::nccl
