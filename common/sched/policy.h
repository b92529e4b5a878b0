#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/ids.h"

namespace baton {

// What a policy may look at.
struct SequenceView {
  SequenceId id;  // grows with arrival
  base::Instant arrived{};
  int32_t prompt_tokens = 0;
  int32_t generated_tokens = 0;
};

// The order of sequences, as const functions. Both must be strict weak orders and may change only
// when things happen, never what is drawn.
struct Policy {
  std::string_view name;
  bool (*starts_before)(const SequenceView& a, const SequenceView& b);
  // Whether `a` gives its blocks up before `b`.
  bool (*yields_before)(const SequenceView& a, const SequenceView& b);
};

// "fcfs": first come, first served; the youngest yields. INVALID_ARGUMENT names the known ones.
absl::StatusOr<Policy> PolicyByName(std::string_view name);

}  // namespace baton
