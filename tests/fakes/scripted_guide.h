#pragma once

#include <algorithm>
#include <span>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "common/base/check.h"
#include "common/sched/sequence_guide.h"

namespace baton {

// A guide that allows at each step what a test says, and then nothing but `eos`.
class ScriptedGuide final : public SequenceGuide {
 public:
  ScriptedGuide(std::vector<std::vector<TokenId>> steps, TokenId eos)
      : steps_(std::move(steps)), eos_(eos) {}

  // Steps that allow one id, which is not `eos`, force it; at most `most` are told at once.
  void ForceAtMost(size_t most) { most_forced_ = most; }

  ForcedRun Forced() override {
    took_long_ = std::exchange(slow_at_first_, false);
    if (most_forced_ == 0) return {};
    forced_.clear();
    size_t next = taken_.size();
    while (forced_.size() < most_forced_ && Forces(next)) forced_.push_back(steps_[next++][0]);
    return {.ids = forced_, .whole = !Forces(next)};
  }
  void Prepare() override { ++prepared_; }
  bool holds_up() const override { return holds_up_; }
  bool knows_forced() const override { return !slow_at_first_; }
  bool took_long() const override { return took_long_; }
  std::span<const uint32_t> Mask() override {
    const size_t ahead = Forced().ids.size();
    words_.assign(kWords, 0);
    const auto allow = [&](TokenId id) {
      words_[static_cast<size_t>(id) / 32] |= uint32_t{1} << (id % 32);
    };
    std::ranges::for_each(Allowed(taken_.size() + ahead), allow);
    masked_ = true;
    if (fails_at_ == taken_.size() + ahead) status_ = failure_;
    return words_;
  }
  bool only_end() const override {
    if (most_forced_ > 0 && Forces(taken_.size())) return false;
    BATON_CHECK(masked_) << "asked before its mask was known";
    return Allowed(taken_.size()) == std::vector<TokenId>{eos_};
  }
  absl::Status status() const override {
    return most_forced_ > 0 && Forces(taken_.size()) ? absl::OkStatus() : status_;
  }
  void Take(TokenId token) override {
    BATON_CHECK(std::ranges::count(Allowed(taken_.size()), token) == 1) << token;
    const bool forced = most_forced_ > 0 && Forces(taken_.size());
    taken_.push_back(token);
    masked_ &= forced;  // the mask is that behind the run
  }

  // The mask behind so many tokens fails.
  void FailAt(size_t taken, absl::Status failure) {
    fails_at_ = taken;
    failure_ = std::move(failure);
  }
  void SetHoldsUp(bool holds_up) { holds_up_ = holds_up; }
  // It turns out to be slow when it is first asked what is forced.
  void SlowAtFirst() { slow_at_first_ = true; }
  const std::vector<TokenId>& taken() const { return taken_; }
  int prepared() const { return prepared_; }

 private:
  static constexpr size_t kWords = 32;  // of a vocabulary of 1000

  std::vector<TokenId> Allowed(size_t step) const {
    return step < steps_.size() ? steps_[step] : std::vector<TokenId>{eos_};
  }
  bool Forces(size_t step) const {
    const std::vector<TokenId> allowed = Allowed(step);
    return allowed.size() == 1 && allowed[0] != eos_;
  }

  const std::vector<std::vector<TokenId>> steps_;
  const TokenId eos_;
  std::vector<TokenId> taken_;
  std::vector<uint32_t> words_;
  size_t most_forced_ = 0;
  std::vector<TokenId> forced_;
  bool masked_ = false;
  bool holds_up_ = false;
  bool slow_at_first_ = false;
  bool took_long_ = false;
  int prepared_ = 0;
  size_t fails_at_ = ~size_t{0};
  absl::Status failure_;
  absl::Status status_;
};

}  // namespace baton
