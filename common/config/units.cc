#include "common/config/units.h"

#include <array>
#include <cmath>
#include <optional>
#include <span>

#include "absl/strings/str_cat.h"
#include "common/config/numbers.h"

namespace baton {
namespace {

struct Unit {
  std::string_view suffix;
  double factor;
};

// A non-negative decimal number followed by one of `units`, in units of factor 1.
std::optional<double> ParseWithUnit(std::string_view text, std::span<const Unit> units,
                                    double bare_factor) {
  double factor = bare_factor;
  for (const Unit& unit : units) {
    if (text.size() > unit.suffix.size() && text.ends_with(unit.suffix)) {
      text.remove_suffix(unit.suffix.size());
      factor = unit.factor;
      break;
    }
  }
  const auto number = ParseNumber<double>(text);
  if (!number || !std::isfinite(*number) || *number < 0) return std::nullopt;
  const double value = *number * factor;
  if (value >= 9e18) return std::nullopt;
  return value;
}

absl::Status WrongQuantity(std::string_view found, std::string_view expected) {
  return absl::InvalidArgumentError("found '" + std::string(found) + "', expected " +
                                    std::string(expected));
}

}  // namespace

absl::StatusOr<int64_t> ParseSize(std::string_view text) {
  constexpr std::array<Unit, 5> kUnits = {{{"KiB", 1024.0},
                                           {"MiB", 1024.0 * 1024},
                                           {"GiB", 1024.0 * 1024 * 1024},
                                           {"TiB", 1024.0 * 1024 * 1024 * 1024},
                                           {"B", 1.0}}};
  // A plain number of bytes is read as an integer, so that it is exact beyond 2^53.
  if (const auto bytes = ParseNumber<int64_t>(text); bytes && *bytes >= 0) return *bytes;
  if (const auto value = ParseWithUnit(text, kUnits, 1)) return std::llround(*value);
  return WrongQuantity(text, "bytes, or a number with KiB, MiB or GiB, e.g. 512MiB");
}

absl::StatusOr<base::Duration> ParseDuration(std::string_view text,
                                             std::chrono::milliseconds unit) {
  constexpr std::array<Unit, 4> kUnits = {{{"ms", 1e6}, {"s", 1e9}, {"m", 60e9}, {"h", 3600e9}}};
  const double bare = 1e6 * static_cast<double>(unit.count());
  constexpr double kLongest = 366 * 24 * 3600e9;  // sums with clock readings must not overflow
  const auto value = ParseWithUnit(text, kUnits, bare);
  if (value && *value <= kLongest) return std::chrono::nanoseconds(std::llround(*value));
  return WrongQuantity(text, "a duration from 0 to a year, e.g. 500ms, 30s or 2m");
}

std::string FormatSize(int64_t bytes) {
  constexpr std::array<std::string_view, 4> kSuffixes = {"", "KiB", "MiB", "GiB"};
  size_t suffix = 0;
  while (bytes != 0 && bytes % 1024 == 0 && suffix + 1 < kSuffixes.size()) {
    bytes /= 1024;
    ++suffix;
  }
  return std::to_string(bytes) + std::string(kSuffixes.at(suffix));
}

std::string FormatDuration(base::Duration duration) {
  const double ms = base::Milliseconds(duration);
  if (ms >= 1000 && std::fmod(ms, 1000) == 0) return FormatDouble(ms / 1000) + "s";
  return FormatDouble(ms) + "ms";
}

}  // namespace baton
