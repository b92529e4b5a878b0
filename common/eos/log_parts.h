#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/eos/line_source.h"

// The files of a log that is rotated by size. FILE is the one that is written. When it is full it
// becomes FILE.N, where N is one more than that of any part before it, and it keeps this number for
// ever: only FILE.N.zst may take its place, which holds the same lines. Beside it stand
// FILE.N.requests.jsonl, perhaps with .zst, and FILE.N.meta.json. So who has read FILE.N reads on
// in FILE.N+1, and who reads FILE knows which number it will have.
namespace baton {

inline constexpr std::string_view kRequestsSuffix = ".requests.jsonl";
inline constexpr std::string_view kMetaSuffix = ".meta.json";
inline constexpr std::string_view kZstdSuffix = ".zst";

// A part of a log that is there.
struct LogPart {
  int64_t number = 0;  // 1 or more
  std::string path;    // FILE.N, or FILE.N.zst where only that one is there
};

// Where a log really is, or will be: parts stand beside the file, not beside a symbolic link to it.
std::string RealLogPath(const std::string& path);

// The parts of the log FILE, or with `suffix` what stands under it beside each of them, by number.
std::vector<LogPart> PartsOf(const std::string& file, std::string_view suffix = "");
// The highest number in use, by whatever file; 0 when there is none.
int64_t LastPartNumber(const std::string& file);
// "FILE.N"
std::string PartPath(const std::string& file, int64_t number);

// Whether readers would take a file of this name for a part of a log.
bool NamesAPart(std::string_view path);

// Whether `path` is, or would be, one of the files of the log that FILE, FILE.N or FILE.N.zst is
// of: rows, summaries or meta, of FILE or of any part.
bool IsFileOfLog(const std::string& log, const std::string& path);

// FILE and the parts before it, at one moment, whatever a writer does meanwhile.
struct OpenedLog {
  std::vector<LogPart> parts;
  LineSource live;     // FILE
  int64_t number = 0;  // the one that FILE gets when it is full
};
// NOT_FOUND when FILE is not there.
absl::StatusOr<OpenedLog> OpenLog(const std::string& file);

// The files of one log that somebody wants to read.
struct LogFiles {
  std::string name;                // FILE, or the only part that was named
  bool live = false;               // FILE itself, and all parts that are there when it is opened
  std::vector<std::string> parts;  // those that were named, in their order, of one that is not live
  int64_t first_part = 1;          // the number of the first of them
};

// The logs that `named` speaks of, in the order of their first mention. FILE stands for all its
// parts and itself; FILE.N and FILE.N.zst for this part alone, and several of one log are read as
// one, in the order of their numbers. A link stands for what it leads to.
std::vector<LogFiles> LogsNamed(const std::vector<std::string>& named);
// The same of one name.
LogFiles LogNamed(const std::string& named);

}  // namespace baton
