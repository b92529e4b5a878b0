#include "common/sched/beam_group.h"

#include <algorithm>
#include <cmath>
#include <iterator>
#include <tuple>
#include <utility>

#include "common/base/check.h"

namespace baton {

BeamGroup::BeamGroup(const BeamParams& params, int32_t max_tokens, Ends ends)
    : params_(params), max_tokens_(max_tokens), ends_(std::move(ends)), members_(1) {
  BATON_CHECK(params.width >= 1 && params.results >= 1 && params.results <= params.width &&
              max_tokens >= 1)
      << params.width << " beams, " << params.results << " results, " << max_tokens << " tokens";
}

void BeamGroup::Advance(std::span<const std::span<const TokenLogprob>> candidates) {
  BATON_CHECK(!done_ && candidates.size() == members_.size())
      << "candidates of " << candidates.size() << " members of " << members_.size();
  ++steps_;
  const bool last = steps_ >= max_tokens_;
  const auto width = static_cast<size_t>(params_.width);
  const std::vector<Ranked> ranked = Rank(candidates);
  std::vector<Member> next;
  for (size_t rank = 0; rank < ranked.size(); ++rank) {
    if (rank >= width && (last || next.size() == width)) break;
    const Ranked& candidate = ranked[rank];
    FinishReason reason = ends_(candidate.token);
    if (reason == FinishReason::kNone && last) reason = FinishReason::kLength;
    if (reason != FinishReason::kNone) {
      if (rank < width) Finish(candidate, reason);
    } else if (next.size() < width) {
      Member& member = next.emplace_back();
      member.parent = candidate.member;
      member.token = candidate.token;
      member.logprobs = candidate.logprobs;
      member.node = AddNode(candidate);
    }
  }
  BATON_CHECK(last || next.size() == width)
      << next.size() << " of " << width << " beams go on after " << ranked.size() << " candidates";
  members_ = std::move(next);
  const bool full = finished_.size() == width;
  done_ = last || (full && (params_.early_stopping == EarlyStopping::kTrue || !CanImprove()));
}

std::vector<BeamGroup::Ranked> BeamGroup::Rank(
    std::span<const std::span<const TokenLogprob>> candidates) const {
  std::vector<Ranked> ranked;
  for (size_t i = 0; i < candidates.size(); ++i) {
    for (const TokenLogprob& candidate : candidates[i]) {
      ranked.push_back({.member = static_cast<int32_t>(i),
                        .token = candidate.token,
                        .logprobs = members_[i].logprobs + candidate.logprob});
    }
  }
  std::ranges::sort(ranked, [](const Ranked& a, const Ranked& b) {
    return std::make_tuple(-a.logprobs, a.member, a.token) <
           std::make_tuple(-b.logprobs, b.member, b.token);
  });
  return ranked;
}

int32_t BeamGroup::AddNode(const Ranked& candidate) {
  nodes_.push_back(
      {.before = members_[static_cast<size_t>(candidate.member)].node, .token = candidate.token});
  return static_cast<int32_t>(nodes_.size()) - 1;
}

double BeamGroup::Score(double logprobs, int32_t length) const {
  return logprobs / std::pow(static_cast<double>(length), params_.length_penalty);
}

void BeamGroup::Finish(const Ranked& candidate, FinishReason reason) {
  const double score = Score(candidate.logprobs, steps_);
  const auto worse = [score](const Finished& other) { return other.score < score; };
  const auto at = std::ranges::find_if(finished_, worse);
  const auto width = static_cast<size_t>(params_.width);
  if (at == finished_.end() && finished_.size() == width) return;
  finished_.insert(at, {.node = AddNode(candidate), .score = score, .reason = reason});
  if (finished_.size() > width) finished_.pop_back();
}

// Whether the best running beam may still get a better score than the worst that finished: longer,
// it can only lose logprobs, but a positive penalty weighs them less.
bool BeamGroup::CanImprove() const {
  const bool longest =
      params_.early_stopping == EarlyStopping::kNever && params_.length_penalty > 0;
  const int32_t length = longest ? max_tokens_ : steps_;
  return Score(members_.front().logprobs, length) > finished_.back().score;
}

std::vector<BeamResult> BeamGroup::Results() const {
  BATON_CHECK(done_) << "after " << steps_ << " steps";
  std::vector<BeamResult> results;
  const auto count = std::min(finished_.size(), static_cast<size_t>(params_.results));
  for (const Finished& finished : std::span(finished_).first(count)) {
    BeamResult& result = results.emplace_back();
    result.score = finished.score;
    result.reason = finished.reason;
    for (int32_t at = finished.node; at >= 0; at = nodes_[static_cast<size_t>(at)].before) {
      result.tokens.push_back(nodes_[static_cast<size_t>(at)].token);
    }
    std::ranges::reverse(result.tokens);
  }
  return results;
}

}  // namespace baton
