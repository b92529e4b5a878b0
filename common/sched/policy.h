#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "common/base/clock.h"
#include "common/base/end_estimate.h"
#include "common/base/ids.h"
#include "common/base/policy_settings.h"

namespace baton {

// What a policy may look at.
struct SequenceView {
  SequenceId id;            // grows with admission here
  base::Instant arrived{};  // of the request, wherever it waited
  int32_t prompt_tokens = 0;
  int32_t generated_tokens = 0;
  int32_t tokens_left = 0;  // until its limit; the model may end it before
  // The last estimate of its end, made from its tokens so far or, before the first, from what is
  // known of its class. Of a sequence that ignores EOS it is the limit itself, to which it runs.
  // Without one nothing is known, which is not the same as a long way to go.
  std::optional<EndEstimate> end;
  // How many tokens its whole answer was expected to have when it came here: by its class and by
  // what it had generated elsewhere, never by what the model says of its end.
  std::optional<float> class_tokens;
  // It gave its place to another one that was to end sooner. It is not asked to do so again.
  bool gave_way = false;
};

// What a candidate would be let in beside.
struct AdmissionView {
  std::span<const SequenceView> beside;  // they run or hold blocks
  int64_t pool_tokens = 0;               // that the whole block pool holds
  int64_t free_tokens = 0;               // that the pool could hand out now
  int32_t block_size = 1;                // tokens
};

// When a policy is asked.
struct PolicyMoment {
  base::Instant now{};
  // How long a step takes of late, which is the time from a sequence's token to its next one. Zero
  // before the first step.
  base::Duration token_time{};
  PolicySettings settings;
};

inline bool NobodyGivesWay(const SequenceView&, const SequenceView&, const PolicyMoment&) {
  return false;
}

// Who comes first, as const functions of what they are shown. They change when things happen, never
// which tokens are drawn. Orders are strict weak orders of one moment; they may differ from moment
// to moment.
//
// A policy does not decide whether anybody gets on. The sequence that came first (CameBefore)
// starts before all others that are queued and needs nobody's leave; once it runs, it gets blocks
// and its row before the others and is not preempted. Two things go before it under any policy:
// sequences that were preempted start again first, and as a reservation, which has blocks and no
// token yet, it may be revoked like any other; its request then comes back as old as it is. So
// estimates may be wrong at no other cost than time.
struct Policy {
  // Whether `a` starts, and has its prompt computed, before `b`.
  bool (*starts_before)(const SequenceView& a, const SequenceView& b, const PolicyMoment& moment);
  // Whether `candidate`, for which there are blocks now, is let in. Nobody passes one that is not.
  // Not asked when nothing runs.
  bool (*admits)(const SequenceView& candidate, const AdmissionView& view,
                 const PolicyMoment& moment);
  // Whether `a` gives its blocks up before `b` does.
  bool (*yields_before)(const SequenceView& a, const SequenceView& b, const PolicyMoment& moment);
  // Whether `candidate`, which is next and finds no place, takes that of `victim`, which runs, did
  // not come first and did not give way before. The victim waits for its turn again in the order of
  // starts_before. While one waits so, no other gives way.
  bool (*displaces)(const SequenceView& candidate, const SequenceView& victim,
                    const PolicyMoment& moment) = NobodyGivesWay;
  // Whether starts_before is more than an order of arrival. Then settings.line requests are taken
  // in beyond those that can run, so that there is a choice.
  bool chooses = false;
  PolicySettings settings;

  int32_t line() const { return chooses ? settings.line : 0; }
};

// First come, first served; the youngest yields.
inline bool CameBefore(const SequenceView& a, const SequenceView& b) {
  return a.arrived != b.arrived ? a.arrived < b.arrived : a.id < b.id;
}
inline constexpr Policy kFcfsPolicy = {
    .starts_before = [](const SequenceView& a, const SequenceView& b,
                        const PolicyMoment&) { return CameBefore(a, b); },
    .admits = [](const SequenceView&, const AdmissionView&, const PolicyMoment&) { return true; },
    .yields_before = [](const SequenceView& a, const SequenceView& b,
                        const PolicyMoment&) { return CameBefore(b, a); },
    .displaces = NobodyGivesWay,
    .chooses = false,
    .settings = {}};

}  // namespace baton
