#include "common/sample/runaway.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "common/base/check.h"
#include "common/base/token_boundary.h"

namespace baton {

// The run whose last token is number `end` of the answer, counted from 1.
RunawayGuard::Gram RunawayGuard::RunBefore(std::span<const TokenId> answer, int32_t end) {
  Gram gram;
  std::copy_n(answer.begin() + (end - kGram), kGram, gram.begin());
  return gram;
}

RunawayGuard::RunawayGuard(std::span<const TokenId> answer, std::optional<int32_t> end_chance_step,
                           std::span<const uint8_t> boundaries)
    : boundaries_(boundaries),
      length_(static_cast<int32_t>(answer.size())),
      end_chance_step_(std::clamp(end_chance_step.value_or(length_), 0, length_)) {
  for (int32_t end = std::max(kGram, length_ - kGrams + 1); end <= length_; ++end) {
    ++grams_[RunBefore(answer, end)];
  }
}

void RunawayGuard::Take(std::span<const TokenId> answer, SampledToken* token) {
  BATON_CHECK(std::ssize(answer) == length_ + 1) << answer.size() << " tokens after " << length_;
  ++length_;
  if (length_ >= kGram) ++grams_[RunBefore(answer, length_)];
  if (length_ > kWindow) LetGo(RunBefore(answer, length_ - kGrams));
  // Not a number, where the model has no EOS, is no chance, and where a guide forces another token
  // there is none.
  token->end_chance =
      !token->forced && token->eos.eos_logprob >= std::log(kChance) && CouldEnd(answer);
  if (token->end_chance) end_chance_step_ = length_;
}

// Whether the last token of `answer` stands where an answer may end.
bool RunawayGuard::CouldEnd(std::span<const TokenId> answer) const {
  if (boundaries_.empty()) return true;
  return answer.size() > 1 && BoundaryOf(boundaries_, answer[answer.size() - 2]) != 0;
}

void RunawayGuard::LetGo(const Gram& gram) {
  const auto found = grams_.find(gram);
  BATON_CHECK(found != grams_.end()) << "a run leaves the window that was never in it";
  if (--found->second == 0) grams_.erase(found);
}

bool RunawayGuard::runaway() const {
  if (length_ - end_chance_step_ < kWindow) return false;
  const auto distinct = static_cast<double>(grams_.size());
  return distinct <= (1 - kRepeated) * kGrams;
}

}  // namespace baton
