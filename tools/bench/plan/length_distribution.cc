#include "tools/bench/plan/length_distribution.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/config/flag_set.h"
#include "common/config/numbers.h"

namespace baton::bench {
namespace {

constexpr double kZ99 = 2.3263478740408408;  // the standard normal's 99th percentile
constexpr int32_t kLongestDrawn = 131'072;   // where the tail of an unbounded distribution ends

// The numbers of "a,b" or "lo:hi"; empty when one of them is none.
std::vector<double> Numbers(std::string_view text, char separator) {
  std::vector<double> numbers;
  while (true) {
    const size_t end = text.find(separator);
    const auto number = ParseNumber<double>(text.substr(0, end));
    if (!number || !std::isfinite(*number)) return {};
    numbers.push_back(*number);
    if (end == std::string_view::npos) return numbers;
    text.remove_prefix(end + 1);
  }
}

absl::Status Wrong(std::string_view text, std::string_view why) {
  return UsageError(absl::StrCat("length '", std::string(text), "'"), why, LengthForms());
}

bool WholeLength(double number) {
  return number >= 1 && number <= LengthDistribution::kMax && number == std::floor(number);
}

}  // namespace

std::string LengthForms() {
  return "128, 64:256 (uniform), chat, code, summarize, reasoning, lognormal:MEDIAN,P99, exp:MEAN "
         "or normal:MEAN,SD";
}

bool LengthDistribution::FindNamed(std::string_view name, LengthSide side,
                                   LengthDistribution* out) {
  const bool input = side == LengthSide::kInput;
  using Parts = std::vector<Part>;
  const auto lognormal = [](double median, double p99) {
    return Parts{{1, Shape::kLognormal, median, p99}};
  };
  if (name == "chat") {  // medians and P99 of the Azure conversation trace of 2023
    out->parts_ = input ? lognormal(1020, 4142) : lognormal(129, 601);
  } else if (name == "code") {  // likewise, of the Azure code trace of 2023
    out->parts_ = input ? lognormal(1469, 7436) : lognormal(13, 252);
  } else if (name == "summarize") {
    // Papers and abstracts of arXiv as in Vidur's trace: prompts by mean and deviation, outputs by
    // median and P90.
    out->parts_ = input ? Parts{{1, Shape::kNormal, 2588, 945}} : lognormal(167, 714);
  } else if (name == "reasoning") {
    // DeepSeek-R1 clients of ServeGen. Outputs have two modes, fitted to P10, P50, P90 and P99
    // within 6 %.
    out->parts_ =
        input ? lognormal(269, 24584)
              : Parts{{0.88, Shape::kLognormal, 640, 2836}, {0.12, Shape::kLognormal, 4700, 23950}};
  } else {
    return false;
  }
  out->max_ = kLongestDrawn;
  return true;
}

absl::StatusOr<LengthDistribution::Part> LengthDistribution::ParseForm(
    std::string_view text, size_t colon, const std::vector<double>& numbers) {
  const std::string_view name = text.substr(0, colon);
  const auto sized = [&](size_t count) {
    return numbers.size() == count && numbers[0] >= 1 && numbers[0] <= kMax;
  };
  if (name == "lognormal") {
    if (sized(2) && numbers[1] > numbers[0] && numbers[1] <= kMax) {
      return Part{1, Shape::kLognormal, numbers[0], numbers[1]};
    }
    return Wrong(text, "expected a median of at least 1 and a greater P99");
  }
  if (name == "normal") {
    if (sized(2) && numbers[1] > 0 && numbers[1] <= kMax) {
      return Part{1, Shape::kNormal, numbers[0], numbers[1]};
    }
    return Wrong(text, "expected a mean of at least 1 and a standard deviation above 0");
  }
  if (name == "exp") {
    if (sized(1)) return Part{1, Shape::kExponential, numbers[0], 0};
    return Wrong(text, "expected a mean of at least 1");
  }
  return Wrong(text, "there is no such distribution");
}

absl::StatusOr<LengthDistribution> LengthDistribution::Parse(std::string_view text,
                                                             LengthSide side) {
  LengthDistribution result;
  result.text_ = std::string(text);
  if (FindNamed(text, side, &result)) return result;
  if (const auto number = ParseNumber<double>(text)) {
    if (!WholeLength(*number)) {
      return Wrong(text, absl::StrCat("expected whole tokens from 1 to ", kMax));
    }
    result.parts_ = {{1, Shape::kUniform, *number, *number}};
    result.max_ = static_cast<int32_t>(*number);
    return result;
  }
  const size_t colon = text.find(':');
  if (colon == std::string_view::npos) return Wrong(text, "there is no such distribution");
  if (const auto range = Numbers(text, ':'); range.size() == 2) {
    if (!WholeLength(range[0]) || !WholeLength(range[1]) || range[0] > range[1]) {
      return Wrong(text, absl::StrCat("expected LO:HI, whole tokens from 1 to ", kMax,
                                      ", the smaller first"));
    }
    result.parts_ = {{1, Shape::kUniform, range[0], range[1]}};
    result.max_ = static_cast<int32_t>(range[1]);
    return result;
  }
  BATON_ASSIGN_OR_RETURN(const Part part,
                         ParseForm(text, colon, Numbers(text.substr(colon + 1), ',')));
  result.parts_ = {part};
  result.max_ = kLongestDrawn;
  return result;
}

bool LengthDistribution::fixed() const {
  return parts_.size() == 1 && parts_[0].shape == Shape::kUniform && parts_[0].a == parts_[0].b;
}

int32_t LengthDistribution::Draw(Draws* draws) const {
  BATON_CHECK(!parts_.empty()) << "a distribution that was not parsed";
  size_t chosen = 0;
  if (parts_.size() > 1) {
    double left = draws->Uniform();
    while (chosen + 1 < parts_.size() && left >= parts_[chosen].weight) {
      left -= parts_[chosen++].weight;
    }
  }
  const Part& part = parts_[chosen];
  double length = 0;
  switch (part.shape) {
    case Shape::kUniform:
      length = part.a + draws->Below(static_cast<uint32_t>(part.b - part.a) + 1);
      break;
    case Shape::kLognormal:
      length = part.a * std::exp(std::log(part.b / part.a) / kZ99 * draws->Normal());
      break;
    case Shape::kNormal:
      length = part.a + part.b * draws->Normal();
      break;
    case Shape::kExponential:
      length = part.a * draws->Exponential();
      break;
  }
  return static_cast<int32_t>(std::clamp(std::round(length), 1.0, static_cast<double>(max_)));
}

std::string LengthDistribution::DescribePart(const Part& part) {
  switch (part.shape) {
    case Shape::kUniform:
      if (part.a == part.b) return absl::StrCat("always ", part.a);
      return absl::StrCat("uniform from ", part.a, " to ", part.b);
    case Shape::kLognormal:
      return absl::StrCat("lognormal, median ", part.a, ", P99 ", part.b);
    case Shape::kNormal:
      return absl::StrCat("normal, mean ", part.a, ", standard deviation ", part.b);
    case Shape::kExponential:
      return absl::StrCat("exponential, mean ", part.a);
  }
  return "";
}

std::string LengthDistribution::Describe() const {
  std::string text = absl::StrCat(text_, ": ");
  for (size_t i = 0; i < parts_.size(); ++i) {
    if (i > 0) absl::StrAppend(&text, "; ");
    if (parts_.size() > 1) absl::StrAppend(&text, std::round(100 * parts_[i].weight), " % ");
    absl::StrAppend(&text, DescribePart(parts_[i]));
  }
  return text;
}

}  // namespace baton::bench
