#include "common/sched/policies/past_future.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "common/sched/policies/expectation.h"

namespace baton {
namespace {

// Moments at which the KV is foreseen, in tokens from now.
constexpr std::array<double, 36> kAhead = {0,    1,    4,    8,    16,   24,   32,   40,   48,
                                           64,   80,   96,   112,  128,  160,  192,  224,  256,
                                           320,  384,  448,  512,  576,  704,  832,  1024, 1280,
                                           1536, 1792, 2048, 2560, 3072, 3584, 4096, 6144, 8192};

// Abramowitz and Stegun, 26.2.23, for chances of a half and more; within 4.5e-4.
double NormalQuantile(double chance) {
  const double t = std::sqrt(-2 * std::log(1 - chance));
  return t - (2.515517 + t * (0.802853 + t * 0.010328)) /
                 (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
}

bool Admits(const SequenceView& candidate, const AdmissionView& view, const PolicyMoment& moment) {
  const bool known =
      candidate.end || std::ranges::any_of(view.beside, [](const auto& s) { return !!s.end; });
  if (!known) return true;
  double held = 0;
  for (const SequenceView& sequence : view.beside) held += TokensHeld(sequence);
  // Blocks are filled in part, half of one for each sequence by the mean; and what several share is
  // counted for each of them.
  const double in_use = static_cast<double>(view.pool_tokens - view.free_tokens);
  const double gaps = 0.5 * view.block_size * static_cast<double>(view.beside.size() + 1);
  const double shared = std::max(0.0, held - in_use);
  const double fits = static_cast<double>(view.pool_tokens) + shared - gaps;
  return ForeseenPeak(candidate, view, moment.settings.quantile) <= fits;
}

}  // namespace

double ForeseenPeak(const SequenceView& candidate, const AdmissionView& view, double quantile) {
  std::array<double, kAhead.size()> mean{}, variance{};
  const auto add = [&](const SequenceView& sequence) {
    const Survival survival(sequence);
    for (size_t i = 0; i < kAhead.size(); ++i) {
      const double stays = survival.At(kAhead[i]);
      const double holds = TokensHeld(sequence) + (sequence.end ? kAhead[i] : 0);
      mean[i] += stays * holds;
      variance[i] += stays * (1 - stays) * holds * holds;
    }
  };
  for (const SequenceView& sequence : view.beside) add(sequence);
  add(candidate);
  const double deviations = NormalQuantile(quantile);
  double peak = 0;
  for (size_t i = 0; i < kAhead.size(); ++i) {
    peak = std::max(peak, mean[i] + deviations * std::sqrt(variance[i]));
  }
  return peak;
}

constinit const Policy kPastFuturePolicy = {
    .starts_before = kFcfsPolicy.starts_before,
    .admits = Admits,
    .yields_before = [](const SequenceView& a, const SequenceView& b,
                        const PolicyMoment&) { return YieldsByWork(a, b); },
    .displaces = kFcfsPolicy.displaces,
    .chooses = false,
    .settings = {}};

}  // namespace baton
