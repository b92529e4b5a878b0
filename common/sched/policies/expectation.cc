#include "common/sched/policies/expectation.h"

#include <algorithm>
#include <cmath>
#include <functional>

namespace baton {
namespace {

double WithinLimit(const SequenceView& view, double remaining) {
  return std::clamp(remaining, 0.0, static_cast<double>(view.tokens_left));
}

}  // namespace

std::optional<double> ExpectedRemaining(const SequenceView& view) {
  if (!view.end) return std::nullopt;
  return WithinLimit(view, double{view.end->expected_remaining});
}

Survival::Survival(const SequenceView& view)
    : known_(view.end.has_value()), limit_(static_cast<double>(view.tokens_left)) {
  if (!known_) return;
  const EndEstimate& end = *view.end;
  const double p50 = double{end.p50}, p90 = std::max(p50, double{end.p90});
  tail_tokens_ = (p90 - p50) / std::log(0.5 / 0.1);
  sure_ = IsSure(end);
  if (sure_) limit_ = std::min(limit_, p50);
  size_t used = 1;  // the first one is now
  for (size_t i = 0; i < kEndHorizons.size(); ++i) {
    points_[used++] = {static_cast<double>(kEndHorizons[i]), 1 - double{end.p_within[i]}};
  }
  points_[used++] = {p50, 0.5};
  points_[used++] = {p90, 0.1};
  std::ranges::sort(points_, {}, &Point::tokens);
  for (size_t i = 1; i < points_.size(); ++i) {
    points_[i].stays = std::clamp(points_[i].stays, 0.0, points_[i - 1].stays);
  }
}

double Survival::At(double tokens) const {
  if (!known_) return 1;
  if (tokens >= limit_) return 0;
  if (sure_) return 1;
  const auto behind = std::ranges::upper_bound(points_, tokens, {}, &Point::tokens);
  if (behind == points_.begin()) return 1;
  const Point& before = *(behind - 1);
  if (behind == points_.end()) {
    if (tail_tokens_ == 0) return 0;
    return before.stays * std::exp(-(tokens - before.tokens) / tail_tokens_);
  }
  const double part = (tokens - before.tokens) / (behind->tokens - before.tokens);
  return before.stays + part * (behind->stays - before.stays);
}

bool IsAboutToEnd(const SequenceView& view) {
  if (view.tokens_left <= kEndHorizons[2]) return true;
  return view.end && view.end->p_within[2] >= 0.5F;
}

bool YieldsByWork(const SequenceView& a, const SequenceView& b) {
  const bool a_ends = IsAboutToEnd(a), b_ends = IsAboutToEnd(b);
  if (a_ends != b_ends) return b_ends;
  const auto a_left = ExpectedRemaining(a), b_left = ExpectedRemaining(b);
  if (a_left.has_value() != b_left.has_value()) return a_left.has_value();
  if (!a_left) return CameBefore(b, a);
  const auto work = [](const SequenceView& view, double left) { return left * TokensHeld(view); };
  const double a_work = work(a, *a_left), b_work = work(b, *b_left);
  return a_work != b_work ? a_work > b_work : CameBefore(b, a);
}

}  // namespace baton
