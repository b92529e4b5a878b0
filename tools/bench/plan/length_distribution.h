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
  // Whether every draw is the same number, which a plan must then keep.
  bool fixed() const;
  // No draw is longer.
  int32_t max() const { return max_; }
  // What it was parsed from: "chat".
  const std::string& text() const { return text_; }
  // The same with its parameters: "chat: lognormal, median 1020, P99 4142".
  std::string Describe() const;

  static constexpr int32_t kMax = 10'000'000;

 private:
  enum class Shape { kUniform, kLognormal, kNormal, kExponential };
  // One part of a mixture.
  struct Part {
    double weight = 1;
    Shape shape = Shape::kUniform;
    // By shape: low and high; median and P99; mean and standard deviation; the mean alone.
    double a = 0;
    double b = 0;
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
