#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/plan/draws.h"

namespace baton::bench {

// A named distribution has one shape for prompts and another for outputs.
enum class LengthSide { kInput, kOutput };

// Lengths in tokens, drawn from a distribution and rounded to whole tokens of at least 1. Immutable
// and cheap to copy.
class LengthDistribution final {
 public:
  // One of the forms that LengthForms() lists; an error names what was found and the forms.
  static absl::StatusOr<LengthDistribution> Parse(std::string_view text, LengthSide side);

  int32_t Draw(Draws* draws) const;
  // Always the same number, which a plan must keep.
  bool fixed() const;
  // No draw is longer.
  int32_t max() const { return max_; }
  // As given: "chat".
  const std::string& text() const { return text_; }
  // With its parameters: "chat: lognormal, median 1020, P99 4142".
  std::string Describe() const;

  static constexpr int32_t kMax = 10'000'000;

 private:
  enum class Shape { kUniform, kLognormal, kNormal, kExponential };
  // One part of a mixture.
  struct Part {
    double weight = 1;
    Shape shape = Shape::kUniform;
    double a = 0;  // low; median; mean; mean
    double b = 0;  // high; P99; standard deviation; unused
  };

  static absl::StatusOr<Part> ParseForm(std::string_view text, size_t colon,
                                        const std::vector<double>& numbers);
  static bool FindNamed(std::string_view name, LengthSide side, LengthDistribution* out);
  static std::string DescribePart(const Part& part);

  std::vector<Part> parts_;  // weights add up to 1
  int32_t max_ = kMax;
  std::string text_;
};

// The forms for a help text: "N, LO:HI, chat, ...".
std::string LengthForms();

}  // namespace baton::bench
