#include "tools/sim/baselines.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/config/flag_set.h"

namespace baton::simulator {
namespace {

// The weight of the last answer in the moving average.
constexpr double kNewestLength = 0.05;

// What a sequence holds and what is set aside for it.
int64_t Claim(const SequenceView& view) {
  int64_t more = view.tokens_left;
  if (view.end) {
    more = std::min(more, static_cast<int64_t>(std::ceil(view.end->expected_remaining)));
  }
  return int64_t{view.prompt_tokens} + view.generated_tokens + more;
}

bool HasRoom(const SequenceView& candidate, const AdmissionView& view, const PolicyMoment&) {
  int64_t claimed = Claim(candidate);
  for (const SequenceView& other : view.beside) claimed += Claim(other);
  return claimed <= view.pool_tokens;
}

bool JoinsBatch(const SequenceView& candidate, const AdmissionView& view,
                const PolicyMoment& moment) {
  const bool begun = std::ranges::any_of(
      view.beside, [](const SequenceView& other) { return other.generated_tokens > 0; });
  return !begun && HasRoom(candidate, view, moment);
}

Policy Admitting(decltype(Policy::admits) admits) {
  Policy policy = kFcfsPolicy;
  policy.admits = admits;
  return policy;
}

struct NumberForm {
  std::string_view name, unit;
  ReserveBy reserve;
  double min, max;
};
constexpr NumberForm kNumberForms[] = {
    {"static-reserve", "TOKENS", ReserveBy::kNumber, 1, 10'000'000},
    {"ema", "FACTOR", ReserveBy::kAverage, 0.1, 100}};

}  // namespace

absl::StatusOr<std::optional<Baseline>> BaselineNamed(std::string_view name) {
  const auto plain = [](decltype(Policy::admits) admits, ReserveBy reserve) {
    return Baseline{.policy = Admitting(admits), .reserve = reserve};
  };
  if (name == "reserve-max") return plain(HasRoom, ReserveBy::kLimit);
  if (name == "reserve-expected") return plain(HasRoom, ReserveBy::kForeseen);
  if (name == "static-batch") return plain(JoinsBatch, ReserveBy::kLimit);
  const size_t colon = name.find(':');
  for (const NumberForm& form : kNumberForms) {
    if (name.substr(0, colon) != form.name) continue;
    double number = 0;
    const std::string given(colon == name.npos ? "" : name.substr(colon + 1));
    if (!absl::SimpleAtod(given, &number) || !(number >= form.min && number <= form.max)) {
      return UsageError(absl::StrCat("--policy ", std::string(name)),
                        absl::StrCat("expected ", std::string(form.name), ":",
                                     std::string(form.unit), " from ", form.min, " to ", form.max),
                        absl::StrCat("--policy ", std::string(form.name),
                                     form.reserve == ReserveBy::kNumber ? ":256" : ":1.1"));
    }
    return Baseline{.policy = Admitting(HasRoom), .reserve = form.reserve, .number = number};
  }
  return std::optional<Baseline>();
}

std::string BaselineForms() {
  return "reserve-max, reserve-expected, static-batch, static-reserve:TOKENS, ema:FACTOR";
}

std::optional<EndEstimate> Reserve::Behind(int32_t generated) const {
  std::optional<double> length;
  if (by_ == ReserveBy::kNumber) length = number_;
  if (by_ == ReserveBy::kAverage && average_) length = number_ * *average_;
  if (!length) return std::nullopt;
  const auto left = static_cast<float>(std::max(1.0, *length - generated));
  EndEstimate end = {.at_step = generated, .expected_remaining = left, .p50 = left, .p90 = left};
  for (size_t i = 0; i < kEndHorizons.size(); ++i) {
    end.p_within[i] = left <= static_cast<float>(kEndHorizons[i]) ? 1 : 0;
  }
  return end;
}

void Reserve::Ended(int32_t generated_tokens) {
  average_ =
      average_ ? *average_ + kNewestLength * (generated_tokens - *average_) : generated_tokens;
}

}  // namespace baton::simulator
