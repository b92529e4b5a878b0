#include "common/eos/log_parts.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <system_error>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "common/base/output_file.h"
#include "common/base/status.h"

namespace baton {
namespace {

constexpr size_t kMostDigits = 18;  // of a number that fits 64 bits
// A writer needs microseconds to put a new FILE in the place of a full one.
constexpr int kOpenTries = 20;
constexpr absl::Duration kOpenAgainAfter = absl::Milliseconds(1);

// A number without zeros in front, and what stands behind it.
std::optional<std::pair<int64_t, std::string_view>> SplitNumber(std::string_view text) {
  const size_t digits = std::min(text.find_first_not_of("0123456789"), text.size());
  int64_t number = 0;
  if (digits == 0 || digits > kMostDigits || text[0] == '0' ||
      !absl::SimpleAtoi(std::string(text.substr(0, digits)), &number)) {
    return std::nullopt;
  }
  return std::pair(number, text.substr(digits));
}

// Calls `see` with the number of each file FILE.N… beside FILE, what stands behind the number, and
// its path.
template <typename See>
void EachPartFile(const std::string& file, const See& see) {
  const std::filesystem::path path(file);
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  const std::string begin = path.filename().string() + ".";
  std::error_code unreadable;  // a folder that cannot be read has no parts to offer
  for (std::filesystem::directory_iterator entry(folder, unreadable), end;
       !unreadable && entry != end; entry.increment(unreadable)) {
    const std::string name = entry->path().filename().string();
    if (!name.starts_with(begin)) continue;
    const auto split = SplitNumber(std::string_view(name).substr(begin.size()));
    if (split) see(split->first, split->second);
  }
}

// FILE and N of FILE.N or FILE.N.zst.
std::optional<std::pair<std::string, int64_t>> SplitPart(std::string_view path) {
  if (path.ends_with(kZstdSuffix)) path.remove_suffix(kZstdSuffix.size());
  const size_t dot = path.rfind('.');
  if (dot == std::string_view::npos || dot == 0 || path[dot - 1] == '/') return std::nullopt;
  const auto split = SplitNumber(path.substr(dot + 1));
  if (!split || !split->second.empty()) return std::nullopt;
  return std::pair(std::string(path.substr(0, dot)), split->first);
}

// What may stand behind FILE in the name of a file of its log.
bool IsLogSuffix(std::string_view text) {
  if (text.empty() || text == kRequestsSuffix || text == kMetaSuffix) return true;
  if (text[0] != '.') return false;
  const auto split = SplitNumber(text.substr(1));
  if (!split) return false;
  std::string_view rest = split->second;
  if (rest == kMetaSuffix) return true;
  if (rest.ends_with(kZstdSuffix)) rest.remove_suffix(kZstdSuffix.size());
  return rest.empty() || rest == kRequestsSuffix;
}

// The file under a name, with all links followed, and the name itself in the real folder.
std::pair<std::filesystem::path, std::filesystem::path> RealNames(const std::string& path) {
  std::error_code unknown;  // then the name is compared as it is
  const std::filesystem::path name = std::filesystem::absolute(path, unknown).lexically_normal();
  const std::filesystem::path folder =
      std::filesystem::weakly_canonical(name.parent_path(), unknown);
  const std::filesystem::path here = unknown ? name : folder / name.filename();
  const std::filesystem::path target =
      std::filesystem::weakly_canonical(FollowLinks(here), unknown);
  return {unknown ? here : target, here};
}

}  // namespace

std::string RealLogPath(const std::string& path) {
  std::error_code unknown;  // then opening it says why
  if (!std::filesystem::is_symlink(path, unknown)) return path;
  if (!std::filesystem::exists(path, unknown)) return FollowLinks(path).string();
  if (!std::filesystem::is_regular_file(path, unknown)) return path;
  const std::filesystem::path real = std::filesystem::canonical(path, unknown);
  return unknown ? path : real.string();
}

std::string PartPath(const std::string& file, int64_t number) {
  return absl::StrCat(file, ".", number);
}

std::vector<LogPart> PartsOf(const std::string& file, std::string_view suffix) {
  const std::string compressed = absl::StrCat(std::string(suffix), std::string(kZstdSuffix));
  std::map<int64_t, bool> found;  // number -> whether it is there as it was written
  EachPartFile(file, [&](int64_t number, std::string_view rest) {
    if (rest == suffix) found[number] = true;
    if (rest == compressed) found.try_emplace(number, false);
  });
  std::vector<LogPart> parts;
  for (const auto& [number, plain] : found) {
    parts.push_back(
        {number, absl::StrCat(PartPath(file, number), std::string(plain ? suffix : compressed))});
  }
  return parts;
}

int64_t LastPartNumber(const std::string& file) {
  int64_t last = 0;
  EachPartFile(file, [&](int64_t number, std::string_view rest) {
    // What a killed process left half made is nothing.
    if (!rest.ends_with(".tmp")) last = std::max(last, number);
  });
  return last;
}

bool NamesAPart(std::string_view path) {
  return path.ends_with(kZstdSuffix) || SplitPart(path).has_value();
}

bool IsFileOfLog(const std::string& log, const std::string& path) {
  const auto part = SplitPart(log);
  const std::filesystem::path file = RealNames(part ? part->first : log).first;
  const auto [target, here] = RealNames(path);
  const std::string name = file.filename();
  const auto is_of_it = [&](const std::filesystem::path& other) {
    const std::string other_name = other.filename();
    return other.parent_path() == file.parent_path() && other_name.starts_with(name) &&
           IsLogSuffix(std::string_view(other_name).substr(name.size()));
  };
  return is_of_it(target) || is_of_it(here);
}

absl::StatusOr<OpenedLog> OpenLog(const std::string& file) {
  absl::Status absent;
  for (int tries = 0; tries < kOpenTries; ++tries) {
    if (tries > 0) absl::SleepFor(kOpenAgainAfter);
    const int64_t last = LastPartNumber(file);
    absl::StatusOr<LineSource> live = LineSource::Open(file);
    if (!live.ok()) {
      // Only a log that has parts may be between two files.
      if (!absl::IsNotFound(live.status()) || last == 0) return live.status();
      absent = live.status();
      continue;
    }
    std::vector<LogPart> parts = PartsOf(file);
    if (LastPartNumber(file) != last) continue;
    return OpenedLog{std::move(parts), *std::move(live), last + 1};
  }
  if (!absent.ok()) return absent;
  return absl::UnavailableError(
      absl::StrCat(file, " is rotated faster than it can be opened; give it a larger size"));
}

std::vector<LogFiles> LogsNamed(const std::vector<std::string>& named) {
  struct Wanted {
    std::map<int64_t, std::string> parts;
    bool live = false;
  };
  std::vector<std::string> order;
  std::map<std::string, Wanted> wanted;
  for (const std::string& path : named) {
    const auto part = SplitPart(path);
    const std::string file = part ? part->first : RealLogPath(path);
    if (!wanted.contains(file)) order.push_back(file);
    Wanted& log = wanted[file];
    if (part) {
      log.parts[part->second] = path;
    } else {
      log.live = true;
    }
  }
  std::vector<LogFiles> logs;
  for (const std::string& file : order) {
    const Wanted& log = wanted[file];
    LogFiles files{.name = file, .live = log.live};
    if (!log.live) {
      for (const auto& [number, path] : log.parts) files.parts.push_back(path);
      files.first_part = log.parts.begin()->first;
      if (files.parts.size() == 1) files.name = files.parts[0];
    }
    logs.push_back(std::move(files));
  }
  return logs;
}

LogFiles LogNamed(const std::string& named) { return LogsNamed({named})[0]; }

}  // namespace baton
