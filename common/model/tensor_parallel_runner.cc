#include "common/model/tensor_parallel_runner.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/step_check.h"

namespace baton {
namespace {

bool SameDraw(const SampledToken& a, const SampledToken& b) {
  return a.token == b.token && a.valid == b.valid &&
         std::bit_cast<uint32_t>(a.logprob) == std::bit_cast<uint32_t>(b.logprob);
}

absl::Status CheckSameScores(size_t rank, const std::vector<TokenScore>& scores,
                             const std::vector<TokenScore>& expected) {
  BATON_CHECK(scores.size() == expected.size()) << scores.size() << " of " << expected.size();
  for (size_t i = 0; i < scores.size(); ++i) {
    const auto bits = [](const TokenScore& score) {
      return std::pair(score.valid, std::bit_cast<uint32_t>(score.logprob));
    };
    if (bits(scores[i]) == bits(expected[i])) continue;
    return kernels::DeviceFault(
        absl::StrCat("rank ", rank, " gives a token of a prompt the log-probability ",
                     scores[i].logprob, ", rank 0 ", expected[i].logprob,
                     "; tensor-parallel ranks must compute alike: are their devices?"));
  }
  return absl::OkStatus();
}

// Equal inputs and weights give equal bits, so anything else is a fault of a device or a mix of
// different ones.
absl::Status CheckSameDraws(const std::vector<StepOutput>& outputs) {
  const std::vector<SampledToken>& expected = outputs[0].samples;
  for (size_t rank = 1; rank < outputs.size(); ++rank) {
    const std::vector<SampledToken>& samples = outputs[rank].samples;
    BATON_CHECK(samples.size() == expected.size()) << samples.size() << " of " << expected.size();
    for (size_t i = 0; i < samples.size(); ++i) {
      if (SameDraw(samples[i], expected[i])) continue;
      return kernels::DeviceFault(absl::StrCat(
          "rank ", rank, " drew token ", samples[i].token, " of log-probability ",
          samples[i].logprob, ", rank 0 token ", expected[i].token, " of ", expected[i].logprob,
          "; tensor-parallel ranks must compute alike: are their devices?"));
    }
    BATON_RETURN_IF_ERROR(CheckSameScores(rank, outputs[rank].scores, outputs[0].scores));
  }
  return absl::OkStatus();
}

}  // namespace

TensorParallelRunner::TensorParallelRunner(std::vector<Rank> ranks)
    : ranks_(std::move(ranks)), outputs_(ranks_.size()) {
  BATON_CHECK(!ranks_.empty());
  for (size_t rank = 1; rank < ranks_.size(); ++rank) {
    threads_.emplace_back([this, rank] { ServeRank(rank); });
  }
}

TensorParallelRunner::~TensorParallelRunner() {
  {
    base::MutexLock lock(&mutex_);
    stop_ = true;
  }
  changed_.NotifyAll();
  for (std::thread& thread : threads_) thread.join();
}

absl::Status TensorParallelRunner::OnEveryRank(const Work& work) {
  {
    base::MutexLock lock(&mutex_);
    if (!failure_.ok()) return failure_;
    work_ = &work;
    busy_ = ranks_.size();
    ++rounds_;
  }
  changed_.NotifyAll();
  RunRank(work, 0);
  base::MutexLock lock(&mutex_);
  while (busy_ > 0) changed_.Wait(&mutex_);
  work_ = nullptr;
  return failure_;
}

void TensorParallelRunner::RunRank(const Work& work, size_t rank) {
  absl::Status status = work(rank);
  if (!status.ok()) ranks_[rank].collective->Abort(status);
  {
    base::MutexLock lock(&mutex_);
    if (failure_.ok()) failure_ = std::move(status);
    --busy_;
  }
  changed_.NotifyAll();
}

void TensorParallelRunner::ServeRank(size_t rank) {
  uint64_t served = 0;
  while (true) {
    const Work* work = nullptr;
    {
      base::MutexLock lock(&mutex_);
      while (!stop_ && rounds_ == served) changed_.Wait(&mutex_);
      if (stop_) return;
      served = rounds_;
      work = work_;
    }
    RunRank(*work, rank);
  }
}

absl::Status TensorParallelRunner::Submit(const StepPlan& plan) {
  return OnEveryRank([&](size_t rank) { return ranks_[rank].runner->Submit(plan); });
}

absl::StatusOr<StepOutput> TensorParallelRunner::Wait() {
  BATON_RETURN_IF_ERROR(OnEveryRank([&](size_t rank) -> absl::Status {
    BATON_ASSIGN_OR_RETURN(outputs_[rank], ranks_[rank].runner->Wait());
    return absl::OkStatus();
  }));
  BATON_RETURN_IF_ERROR(CheckSameDraws(outputs_));
  return std::move(outputs_[0]);
}

uint64_t TensorParallelRunner::operations_finished() const {
  uint64_t sum = 0;
  for (const Rank& rank : ranks_) sum += rank.runner->operations_finished();
  return sum;
}

int32_t TensorParallelRunner::max_in_flight() const {
  int32_t least = ranks_[0].runner->max_in_flight();
  for (const Rank& rank : ranks_) least = std::min(least, rank.runner->max_in_flight());
  return least;
}

}  // namespace baton
