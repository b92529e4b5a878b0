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

  void Prepare() override { ++prepared_; }
  bool holds_up() const override { return holds_up_; }
  std::span<const uint32_t> Mask() override {
    words_.assign(kWords, 0);
    const auto allow = [&](TokenId id) {
      words_[static_cast<size_t>(id) / 32] |= uint32_t{1} << (id % 32);
    };
    std::ranges::for_each(Allowed(), allow);
    masked_ = true;
    if (fails_at_ == taken_.size()) status_ = failure_;
    return words_;
  }
  bool only_end() const override {
    BATON_CHECK(masked_) << "asked before its mask was known";
    return Allowed() == std::vector<TokenId>{eos_};
  }
  absl::Status status() const override { return status_; }
  void Take(TokenId token) override {
    BATON_CHECK(std::ranges::count(Allowed(), token) == 1) << token << " was not allowed";
    taken_.push_back(token);
    masked_ = false;
  }

  // The mask behind so many tokens fails.
  void FailAt(size_t taken, absl::Status failure) {
    fails_at_ = taken;
    failure_ = std::move(failure);
  }
  void SetHoldsUp(bool holds_up) { holds_up_ = holds_up; }
  const std::vector<TokenId>& taken() const { return taken_; }
  int prepared() const { return prepared_; }

 private:
  static constexpr size_t kWords = 32;  // of a vocabulary of 1000

  std::vector<TokenId> Allowed() const {
    return taken_.size() < steps_.size() ? steps_[taken_.size()] : std::vector<TokenId>{eos_};
  }

  const std::vector<std::vector<TokenId>> steps_;
  const TokenId eos_;
  std::vector<TokenId> taken_;
  std::vector<uint32_t> words_;
  bool masked_ = false;
  bool holds_up_ = false;
  int prepared_ = 0;
  size_t fails_at_ = ~size_t{0};
  absl::Status failure_;
  absl::Status status_;
};

}  // namespace baton
