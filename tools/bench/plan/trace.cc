#include "tools/bench/plan/trace.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <fstream>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/shown_text.h"
#include "common/base/status.h"
#include "common/config/flag_set.h"
#include "common/config/numbers.h"
#include "common/formats/json_reader.h"
#include "nlohmann/json.hpp"
#include "tools/bench/plan/length_distribution.h"

namespace baton::bench {
namespace {

using Json = nlohmann::json;
constexpr std::string_view kHeader = "TIMESTAMP,ContextTokens,GeneratedTokens";
constexpr std::string_view kCsvExample = "2023-11-16 18:15:46.6805900,374,44";
constexpr std::string_view kJsonExample =
    R"({"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47]})";
// Of a timestamp and its negative: what lies between the two still fits a count of nanoseconds.
constexpr double kMaxMilliseconds = 4.6e12;
constexpr int64_t kMaxRows = 5'000'000;

// A defect of one line, with no more of the line than helps to find it.
absl::Status BadLine(const std::string& where, std::string_view line, std::string_view expected) {
  constexpr size_t kShown = 80;
  return absl::InvalidArgumentError(absl::StrCat(where, ": found '", ShownText(line, kShown),
                                                 "'; expected ", std::string(expected)));
}

std::optional<int64_t> Digits(std::string_view text, size_t begin, size_t count) {
  if (text.size() < begin + count) return std::nullopt;
  const std::string_view digits = text.substr(begin, count);
  if (digits.find_first_not_of("0123456789") != std::string_view::npos) return std::nullopt;
  return ParseNumber<int64_t>(digits);
}

// A time "hh:mm:ss" with up to nine decimals, in nanoseconds.
std::optional<std::chrono::nanoseconds> ParseTimeOfDay(std::string_view text) {
  const auto hour = Digits(text, 0, 2), minute = Digits(text, 3, 2), second = Digits(text, 6, 2);
  if (!hour || !minute || !second || text[2] != ':' || text[5] != ':') return std::nullopt;
  if (*hour > 23 || *minute > 59 || *second > 60) return std::nullopt;
  int64_t nanos = 0;
  if (text.size() > 8) {
    const size_t decimals = text.size() - 9;
    if (text[8] != '.' || decimals < 1 || decimals > 9) return std::nullopt;
    const auto fraction = Digits(text, 9, decimals);
    if (!fraction) return std::nullopt;
    nanos = *fraction;
    for (size_t i = decimals; i < 9; ++i) nanos *= 10;
  }
  return std::chrono::seconds((*hour * 60 + *minute) * 60 + *second) +
         std::chrono::nanoseconds(nanos);
}

// The Unix time of "2023-11-16 18:15:46.6805900", with "Z" or "+00:00" behind it or not.
std::optional<std::chrono::nanoseconds> ParseTimestamp(std::string_view text) {
  for (const std::string_view utc : {"+00:00", "Z"}) {
    if (text.ends_with(utc)) text.remove_suffix(utc.size());
  }
  const auto year = Digits(text, 0, 4), month = Digits(text, 5, 2), day = Digits(text, 8, 2);
  if (!year || !month || !day || text.size() < 19) return std::nullopt;
  if (text[4] != '-' || text[7] != '-' || (text[10] != ' ' && text[10] != 'T')) return std::nullopt;
  const std::chrono::year_month_day date{std::chrono::year(static_cast<int>(*year)),
                                         std::chrono::month(static_cast<unsigned>(*month)),
                                         std::chrono::day(static_cast<unsigned>(*day))};
  if (!date.ok() || *year < 1970 || *year > 2200) return std::nullopt;
  const auto time = ParseTimeOfDay(text.substr(11));
  if (!time) return std::nullopt;
  return std::chrono::sys_days(date).time_since_epoch() + *time;
}

std::optional<int32_t> TokenCount(int64_t number, int64_t min) {
  if (number < min || number > LengthDistribution::kMax) return std::nullopt;
  return static_cast<int32_t>(number);
}

absl::StatusOr<TraceRow> ParseCsvLine(std::string_view line, const std::string& where) {
  const size_t first = line.find(',');
  const size_t second = first == line.npos ? line.npos : line.find(',', first + 1);
  if (second == line.npos || line.find(',', second + 1) != line.npos) {
    return BadLine(where, line, absl::StrCat("three fields, as in ", std::string(kCsvExample)));
  }
  const auto at = ParseTimestamp(line.substr(0, first));
  if (!at) return BadLine(where, line.substr(0, first), "a time like 2023-11-16 18:15:46.68059");
  const auto count = [&](std::string_view field) {
    const auto number = ParseNumber<int64_t>(field);
    return number ? TokenCount(*number, 1) : std::nullopt;
  };
  const std::string_view input = line.substr(first + 1, second - first - 1);
  const std::string_view output = line.substr(second + 1);
  constexpr std::string_view kExpected = "a number of tokens from 1 to 10000000";
  TraceRow row{.at = *at, .input_tokens = 0, .output_tokens = 0, .hash_ids = {}};
  if (const auto tokens = count(input)) {
    row.input_tokens = *tokens;
  } else {
    return BadLine(where, input, absl::StrCat(std::string(kExpected), " as ContextTokens"));
  }
  if (const auto tokens = count(output)) {
    row.output_tokens = *tokens;
  } else {
    return BadLine(where, output, absl::StrCat(std::string(kExpected), " as GeneratedTokens"));
  }
  return row;
}

absl::StatusOr<int32_t> JsonTokens(const Json& object, const char* key, const std::string& where) {
  const auto found = object.find(key);
  if (found != object.end() && found->is_number_integer()) {
    if (const auto tokens = TokenCount(found->get<int64_t>(), 1)) return *tokens;
  }
  return BadLine(where, found == object.end() ? "nothing" : ShownJson(*found),
                 absl::StrCat("a number of tokens from 1 to 10000000 as ", key));
}

absl::StatusOr<std::vector<uint64_t>> HashIds(const Json& object, int32_t input_tokens,
                                              int32_t block_tokens, const std::string& where) {
  std::vector<uint64_t> ids;
  const auto found = object.find("hash_ids");
  if (found == object.end() || found->is_null()) return ids;
  if (!found->is_array())
    return BadLine(where, ShownJson(*found), "a list of integers as hash_ids");
  for (const Json& id : *found) {
    if (!id.is_number_integer()) return BadLine(where, ShownJson(id), "integers in hash_ids");
    ids.push_back(id.is_number_unsigned() ? id.get<uint64_t>()
                                          : static_cast<uint64_t>(id.get<int64_t>()));
  }
  const int64_t most = (int64_t{input_tokens} + block_tokens - 1) / block_tokens;
  if (static_cast<int64_t>(ids.size()) > most) {
    return BadLine(
        where, absl::StrCat(ids.size(), " hash_ids"),
        absl::StrCat("at most ", most, " for ", input_tokens, " tokens in blocks of ", block_tokens,
                     "; give --trace-block-tokens, the block size that the trace was made with"));
  }
  return ids;
}

absl::StatusOr<TraceRow> ParseJsonLine(std::string_view line, const std::string& where,
                                       const TraceOptions& options) {
  const absl::StatusOr<Json> parsed = ParseJsonObjectLine(line);
  if (!parsed.ok()) {
    return BadLine(where, line, absl::StrCat("a JSON object like ", std::string(kJsonExample)));
  }
  const Json& object = *parsed;
  const auto timestamp = object.find("timestamp");
  const double ms =
      timestamp != object.end() && timestamp->is_number() ? timestamp->get<double>() : std::nan("");
  if (!(std::abs(ms) < kMaxMilliseconds)) {
    return BadLine(where, timestamp == object.end() ? "nothing" : ShownJson(*timestamp),
                   "milliseconds as timestamp");
  }
  TraceRow row;
  row.at = std::chrono::nanoseconds(std::llround(ms * 1e6));
  BATON_ASSIGN_OR_RETURN(row.input_tokens, JsonTokens(object, "input_length", where));
  BATON_ASSIGN_OR_RETURN(row.output_tokens, JsonTokens(object, "output_length", where));
  BATON_ASSIGN_OR_RETURN(row.hash_ids,
                         HashIds(object, row.input_tokens, options.block_tokens, where));
  return row;
}

absl::Status CheckOptions(const TraceOptions& options) {
  if (!std::isfinite(options.time_scale) || options.time_scale <= 0) {
    return UsageError(absl::StrCat("time scale ", options.time_scale),
                      "expected a positive factor: 0.5 replays twice as fast", "--time-scale 1");
  }
  if (options.block_tokens < 1) {
    return UsageError(absl::StrCat("trace blocks of ", options.block_tokens, " tokens"),
                      "expected at least 1", "512, as in the Mooncake traces");
  }
  return absl::OkStatus();
}

// Sorts, counts times from the first row, scales them and drops what the options leave out.
void Arrange(const TraceOptions& options, std::vector<TraceRow>* rows) {
  const auto earlier = [](const TraceRow& a, const TraceRow& b) { return a.at < b.at; };
  std::stable_sort(rows->begin(), rows->end(), earlier);
  const base::Duration start = rows->front().at;
  for (TraceRow& row : *rows) {
    const double nanos = static_cast<double>((row.at - start).count()) * options.time_scale;
    row.at = base::Duration(std::llround(std::min(nanos, 9e18)));
  }
  const auto late = [&](const TraceRow& row) {
    return options.duration > base::Duration::zero() && row.at >= options.duration;
  };
  rows->erase(std::find_if(rows->begin(), rows->end(), late), rows->end());
  const auto measured = std::find_if(rows->begin(), rows->end(),
                                     [&](const TraceRow& row) { return row.at >= options.warmup; });
  if (rows->end() - measured > options.rows) rows->erase(measured + options.rows, rows->end());
}

}  // namespace

absl::StatusOr<std::vector<TraceRow>> ReadTrace(const std::string& path,
                                                const TraceOptions& options) {
  BATON_RETURN_IF_ERROR(CheckOptions(options));
  std::ifstream file(path);
  if (!file) {
    return absl::NotFoundError(
        absl::StrCat("cannot open the trace ", path, ": ", std::strerror(errno)));
  }
  std::vector<TraceRow> rows;
  std::string line;
  bool csv = false;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    const std::string where = absl::StrCat(path, ":", number);
    if (number == 1 && line == kHeader) {
      csv = true;
      continue;
    }
    if (number == 1 && !line.starts_with('{')) {
      return BadLine(where, line,
                     absl::StrCat("the header ", std::string(kHeader), ", or a JSON object like ",
                                  std::string(kJsonExample)));
    }
    if (line.empty()) continue;
    BATON_ASSIGN_OR_RETURN(TraceRow row,
                           csv ? ParseCsvLine(line, where) : ParseJsonLine(line, where, options));
    rows.push_back(std::move(row));
    if (rows.size() > kMaxRows) {
      return BadLine(where, "more rows", absl::StrCat("at most ", kMaxRows));
    }
  }
  if (file.bad()) {
    return absl::NotFoundError(
        absl::StrCat("cannot read the trace ", path, ": ", std::strerror(errno)));
  }
  if (rows.empty()) return BadLine(path, "no requests", "at least one");
  Arrange(options, &rows);
  return rows;
}

}  // namespace baton::bench
