#include "common/sched/policies/boost.h"

#include <algorithm>
#include <chrono>
#include <cmath>

namespace baton {
namespace {

// What is known of the length of its answer without looking at the answer.
std::optional<double> BlindLength(const SequenceView& view) {
  const auto attained = static_cast<double>(view.generated_tokens);
  if (view.class_tokens) return std::max(double{*view.class_tokens}, attained);
  if (view.generated_tokens > 0) return attained;
  return std::nullopt;
}

bool ComesBefore(const SequenceView& a, const SequenceView& b, const PolicyMoment& moment) {
  const double a_came = BoostedArrival(a, BlindLength(a), moment);
  const double b_came = BoostedArrival(b, BlindLength(b), moment);
  return a_came != b_came ? a_came < b_came : CameBefore(a, b);
}

}  // namespace

double BoostTokens(double tokens, double gamma) {
  constexpr double kLeast = 1;  // no job is shorter than a token
  return -std::log1p(-std::exp(-gamma * std::max(tokens, kLeast))) / gamma;
}

double BoostedArrival(const SequenceView& view, std::optional<double> tokens,
                      const PolicyMoment& moment) {
  const double gamma = moment.settings.gamma;
  const double came = std::chrono::duration<double>(view.arrived.time_since_epoch()).count();
  const double token_s = std::chrono::duration<double>(moment.token_time).count();
  return came - BoostTokens(tokens.value_or(1 / gamma), gamma) * token_s;
}

constinit const Policy kBoostPolicy = {
    .starts_before = ComesBefore,
    .admits = kFcfsPolicy.admits,
    .yields_before = [](const SequenceView& a, const SequenceView& b,
                        const PolicyMoment& moment) { return ComesBefore(b, a, moment); },
    .displaces = kFcfsPolicy.displaces,
    .chooses = true,
    .settings = {}};

}  // namespace baton
