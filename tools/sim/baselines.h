#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/base/end_estimate.h"
#include "common/sched/policy.h"

namespace baton::simulator {

// What is set aside for an answer before it is known how long it gets.
enum class ReserveBy {
  kForeseen,  // what the predictor expects; where it expects nothing, up to the limit
  kLimit,     // as much as the request may generate
  kNumber,    // the same number of tokens for each
  kAverage,   // a moving average of the lengths of answers that ended here, times a factor
};

// A way to admit that others have, to compare with. It is simulated and never served. Who waits
// comes first, first served; the youngest yields. Like any policy it cannot keep out who came
// first, so requests may be let in beyond what was set aside for them when they are the oldest.
struct Baseline {
  Policy policy;
  ReserveBy reserve = ReserveBy::kForeseen;
  double number = 0;  // tokens of kNumber, factor of kAverage
};

// "reserve-max": a request is let in when the pool has room for all of them up to their limits.
// "reserve-expected": likewise, up to what the predictor expects. "static-reserve:TOKENS" and
// "ema:FACTOR": likewise, by kNumber and kAverage. "static-batch": as reserve-max, but nobody joins
// those that have begun to generate before the last of them has ended. Nothing if it is none of
// these; an error if its number is missing or out of range.
absl::StatusOr<std::optional<Baseline>> BaselineNamed(std::string_view name);
// The names, for a help text.
std::string BaselineForms();

// What a baseline with kNumber or kAverage believes of the ends of answers. One worker's.
class Reserve final {
 public:
  Reserve(ReserveBy by, double number) : by_(by), number_(number) {}

  // What is believed to come behind `generated` tokens: at least the one that ends the answer.
  // Nothing while no answer has ended for kAverage.
  std::optional<EndEstimate> Behind(int32_t generated) const;
  // An answer ended by itself.
  void Ended(int32_t generated_tokens);

 private:
  const ReserveBy by_;
  const double number_;
  std::optional<double> average_;
};

}  // namespace baton::simulator
