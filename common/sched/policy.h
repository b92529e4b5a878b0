#pragma once

#include <cstdint>

#include "common/base/clock.h"
#include "common/base/ids.h"

namespace baton {

// What a policy may look at.
struct SequenceView {
  SequenceId id;            // grows with admission here
  base::Instant arrived{};  // of the request, wherever it waited
  int32_t prompt_tokens = 0;
  int32_t generated_tokens = 0;
};

// The order of sequences, as const functions. Both must be strict weak orders. They may change only
// when things happen, never which tokens are drawn.
struct Policy {
  bool (*starts_before)(const SequenceView& a, const SequenceView& b);
  // Whether `a` gives its blocks up before `b` does.
  bool (*yields_before)(const SequenceView& a, const SequenceView& b);
};

// First come, first served; the youngest yields.
inline bool CameBefore(const SequenceView& a, const SequenceView& b) {
  return a.arrived != b.arrived ? a.arrived < b.arrived : a.id < b.id;
}
inline constexpr Policy kFcfsPolicy = {
    .starts_before = CameBefore,
    .yields_before = [](const SequenceView& a, const SequenceView& b) { return CameBefore(b, a); }};

}  // namespace baton
