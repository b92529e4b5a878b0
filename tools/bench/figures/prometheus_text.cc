#include "tools/bench/figures/prometheus_text.h"

#include <cctype>
#include <cmath>
#include <limits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/shown_text.h"
#include "common/base/status.h"
#include "common/config/numbers.h"

namespace baton::bench {
namespace {

// Reads one line from left to right.
class LineReader final {
 public:
  LineReader(std::string_view line, int64_t number) : rest_(line), line_(line), number_(number) {}

  absl::StatusOr<MetricSample> Read() {
    MetricSample sample;
    sample.name = TakeName(":");
    if (sample.name.empty()) return Expected("the name of a metric");
    if (rest_.starts_with('{')) {
      rest_.remove_prefix(1);
      BATON_RETURN_IF_ERROR(TakeLabels(&sample));
    }
    if (!SkipBlanks()) return Expected("a blank and a value");
    const std::string_view value = rest_.substr(0, rest_.find_first_of(" \t"));
    const auto number = Value(value);
    if (!number) return Expected("a number, NaN, +Inf or -Inf");
    sample.value = *number;
    rest_.remove_prefix(value.size());
    SkipBlanks();
    if (!rest_.empty() && !ParseNumber<int64_t>(rest_)) return Expected("a time or nothing");
    return sample;
  }

 private:
  absl::Status Expected(std::string_view what) const {
    return absl::InvalidArgumentError(absl::StrCat("metrics line ", number_, ": found '",
                                                   ShownText(rest_), "' in '", ShownText(line_),
                                                   "'; expected ", std::string(what)));
  }

  // Reads a name of letters, digits, underscores and `others` that does not begin with a digit.
  std::string TakeName(std::string_view others) {
    size_t end = 0;
    while (end < rest_.size()) {
      const auto c = static_cast<unsigned char>(rest_[end]);
      const bool letter =
          std::isalpha(c) != 0 || c == '_' || others.find(rest_[end]) != others.npos;
      if (!letter && (end == 0 || std::isdigit(c) == 0)) break;
      ++end;
    }
    const std::string name(rest_.substr(0, end));
    rest_.remove_prefix(end);
    return name;
  }

  bool SkipBlanks() {
    const size_t begin = rest_.find_first_not_of(" \t");
    const bool some = begin != 0 && !rest_.empty();
    rest_.remove_prefix(begin == rest_.npos ? rest_.size() : begin);
    return some;
  }

  // Reads labels, from behind the "{" up to and with the "}"; a comma may stand before that.
  absl::Status TakeLabels(MetricSample* sample) {
    while (true) {
      SkipBlanks();
      if (Take('}')) return absl::OkStatus();
      std::string name = TakeName("");
      if (name.empty()) return Expected("a label's name or }");
      SkipBlanks();
      if (!Take('=')) return Expected("=");
      SkipBlanks();
      if (!Take('"')) return Expected("a label's value in quotes");
      BATON_ASSIGN_OR_RETURN(std::string value, TakeQuoted());
      sample->labels[std::move(name)] = std::move(value);
      SkipBlanks();
      if (!Take(',') && !rest_.starts_with('}')) return Expected(", or }");
    }
  }

  // Reads a label's value, from behind its opening quote up to and with the closing one.
  absl::StatusOr<std::string> TakeQuoted() {
    std::string value;
    for (size_t i = 0; i < rest_.size(); ++i) {
      char c = rest_[i];
      if (c == '"') {
        rest_.remove_prefix(i + 1);
        return value;
      }
      if (c == '\\' && i + 1 < rest_.size()) {
        c = rest_[++i];
        if (c == 'n') c = '\n';
      }
      value += c;
    }
    return Expected("a closing quote");
  }

  bool Take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }

  static std::optional<double> Value(std::string_view text) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    if (text == "NaN") return std::nan("");
    if (text == "+Inf" || text == "Inf") return kInfinity;
    if (text == "-Inf") return -kInfinity;
    if (text.starts_with('+')) text.remove_prefix(1);
    const bool numeric = text.find_first_not_of("0123456789+-.eE") == text.npos;
    return numeric ? ParseNumber<double>(text) : std::nullopt;
  }

  std::string_view rest_;
  const std::string_view line_;
  const int64_t number_;
};

}  // namespace

absl::StatusOr<std::vector<MetricSample>> ParsePrometheusText(std::string_view page) {
  std::vector<MetricSample> samples;
  for (int64_t number = 1; !page.empty(); ++number) {
    const size_t end = page.find('\n');
    std::string_view line = page.substr(0, end);
    page.remove_prefix(end == page.npos ? page.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    const size_t begin = line.find_first_not_of(" \t");
    if (begin == line.npos || line[begin] == '#') continue;
    BATON_ASSIGN_OR_RETURN(MetricSample sample, LineReader(line.substr(begin), number).Read());
    samples.push_back(std::move(sample));
  }
  return samples;
}

}  // namespace baton::bench
