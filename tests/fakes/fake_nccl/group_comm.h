#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "tests/fakes/fake_nccl/comm.h"

namespace baton::nccl {

// What the ranks of a process share: where their values meet.
struct Meeting {
  explicit Meeting(size_t count) : values(count) {}
  std::mutex mutex;
  std::condition_variable changed;
  std::vector<std::span<float>> values;  // [ranks] of those that have come
  size_t come = 0;
  uint64_t number = 0;
  bool fits = true;  // of the last meeting: all came with as many values
};

// Ranks that are devices of this process. As NCCL's blocking communicators, it queues operations.
struct GroupComm final : Comm {
  GroupComm(std::shared_ptr<Meeting> with, int own_rank)
      : meeting(std::move(with)), rank_(static_cast<size_t>(own_rank)) {}
  bool Queues() const override { return true; }
  size_t rank() const { return rank_; }
  size_t ranks() const { return meeting->values.size(); }

 protected:
  bool Connect() override { return true; }
  // Adds in place, in the order of the ranks, or copies each rank's part to the others.
  bool Carry(const Operation& operation) override;
  void Interrupt() override;

 private:
  const std::shared_ptr<Meeting> meeting;  // of all ranks, which are aborted one by one
  const size_t rank_;
};

}  // namespace baton::nccl
