#include "kernels/collective.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/mutex.h"

namespace baton::kernels {
namespace {

// How many elements are summed at once: they stay in the first-level cache while all ranks' values
// are added.
constexpr size_t kTile = 1024;

void SumTile(const std::vector<std::span<float>>& ranks, size_t begin, size_t size) {
  std::array<float, kTile> sum;
  std::copy_n(ranks[0].data() + begin, size, sum.data());
  for (size_t rank = 1; rank < ranks.size(); ++rank) {
    const float* values = ranks[rank].data() + begin;
    for (size_t i = 0; i < size; ++i) sum[i] += values[i];
  }
  for (const std::span<float> values : ranks) std::copy_n(sum.data(), size, values.data() + begin);
}

// What the ranks share. A sum has two halves: all ranks come together, then each adds up its share
// of the elements for all of them, reading and writing the others' memory. To gather parts, all
// come together, and each copies those of the others.
class HostGroup final {
 public:
  HostGroup(int ranks, base::Duration patience)
      : ranks_(static_cast<size_t>(ranks)), patience_(patience), values_(ranks_) {}

  size_t size() const { return ranks_; }

  absl::Status AllReduceSum(size_t rank, std::span<float> values) {
    absl::Status met = Meet(rank, values);
    if (!met.ok()) return met;
    AddShare(rank);
    Part();
    return absl::OkStatus();
  }

  absl::Status AllGather(size_t rank, std::span<float> values) {
    BATON_CHECK(values.size() % ranks_ == 0) << values.size() << " values of " << ranks_;
    absl::Status met = Meet(rank, values);
    if (!met.ok()) return met;
    CopyParts(rank);
    Part();
    return absl::OkStatus();
  }

  absl::Status status() {
    base::MutexLock lock(&mutex_);
    return ended_;
  }

  void Abort(const absl::Status& why) {
    base::MutexLock lock(&mutex_);
    AbortLocked(why);
  }

 private:
  absl::Status Meet(size_t rank, std::span<float> values) {
    base::MutexLock lock(&mutex_);
    if (!ended_.ok()) return ended_;
    values_[rank] = values;
    if (++arrived_ == ranks_) {
      arrived_ = 0;
      adding_ = ranks_;
      ++meetings_;
      changed_.NotifyAll();
      return absl::OkStatus();
    }
    const uint64_t meeting = meetings_;
    const auto deadline = std::chrono::steady_clock::now() + patience_;
    // A rank that has met the others takes part even if the group has ended since, because they
    // count on it.
    while (meetings_ == meeting) {
      if (!ended_.ok()) return ended_;
      if (!changed_.WaitUntil(&mutex_, deadline) && meetings_ == meeting) {
        AbortLocked(absl::DeadlineExceededError(
            absl::StrCat("rank ", rank, " waited ", base::Seconds(patience_), " s for ",
                         ranks_ - arrived_, " of ", ranks_, " tensor-parallel ranks")));
      }
    }
    return absl::OkStatus();
  }

  // How many values each of the ranks that met has.
  size_t Count() const {
    const size_t count = values_[0].size();
    for (const std::span<float> values : values_) {
      BATON_CHECK(values.size() == count) << values.size() << " values beside " << count;
    }
    return count;
  }

  void AddShare(size_t rank) {
    const size_t count = Count();
    const size_t tiles = (count + kTile - 1) / kTile;
    for (size_t tile = tiles * rank / ranks_; tile < tiles * (rank + 1) / ranks_; ++tile) {
      SumTile(values_, tile * kTile, std::min(kTile, count - tile * kTile));
    }
  }

  void CopyParts(size_t rank) {
    const size_t part = Count() / ranks_;
    for (size_t other = 0; other < ranks_; ++other) {
      if (other == rank) continue;
      std::copy_n(values_[other].data() + other * part, part, values_[rank].data() + other * part);
    }
  }

  // Nobody leaves while another rank still works in its memory. There is no deadline, because what
  // is waited for is arithmetic that has begun.
  void Part() {
    base::MutexLock lock(&mutex_);
    if (--adding_ == 0) changed_.NotifyAll();
    while (adding_ > 0) changed_.Wait(&mutex_);
  }

  void AbortLocked(const absl::Status& why) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (ended_.ok()) ended_ = why;
    changed_.NotifyAll();
  }

  const size_t ranks_;
  const base::Duration patience_;
  base::Mutex mutex_;
  base::CondVar changed_;
  // Each rank writes its entry before a meeting, and all read them between the meeting and the
  // parting.
  std::vector<std::span<float>> values_;
  size_t arrived_ ABSL_GUARDED_BY(mutex_) = 0;
  size_t adding_ ABSL_GUARDED_BY(mutex_) = 0;
  uint64_t meetings_ ABSL_GUARDED_BY(mutex_) = 0;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
};

class HostRank final : public Collective {
 public:
  HostRank(std::shared_ptr<HostGroup> group, size_t rank) : group_(std::move(group)), rank_(rank) {}
  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(group_->size()); }
  absl::Status AllReduceSum(std::span<float> values, void* /*stream*/) override {
    return group_->AllReduceSum(rank_, values);
  }
  absl::Status AllGather(std::span<float> values, void* /*stream*/) override {
    return group_->AllGather(rank_, values);
  }
  absl::Status AllReduceSumOnHost(std::span<float> values) override {
    return group_->AllReduceSum(rank_, values);
  }
  absl::Status status() override { return group_->status(); }
  void Abort(const absl::Status& why) override { group_->Abort(why); }

 private:
  const std::shared_ptr<HostGroup> group_;  // shared by the ranks, which end one by one
  const size_t rank_;
};

}  // namespace

std::vector<std::unique_ptr<Collective>> MakeHostGroup(int ranks, base::Duration patience) {
  BATON_CHECK(ranks >= 1) << ranks;
  auto group = std::make_shared<HostGroup>(ranks, patience);
  std::vector<std::unique_ptr<Collective>> ends;
  for (int rank = 0; rank < ranks; ++rank) {
    ends.push_back(std::make_unique<HostRank>(group, static_cast<size_t>(rank)));
  }
  return ends;
}

}  // namespace baton::kernels
