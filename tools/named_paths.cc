#include "tools/named_paths.h"

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/config/usage_errors.h"
#include "common/formats/gguf/gguf_file.h"

namespace baton {
namespace {

std::filesystem::file_type TypeOf(const std::filesystem::path& path) {
  std::error_code ignored;
  return std::filesystem::status(path, ignored).type();
}

bool IsFolder(const std::filesystem::path& path) {
  return TypeOf(path) == std::filesystem::file_type::directory;
}

// As what a path is relative to decides where it leads.
std::string FromHere() {
  std::error_code error;
  const std::filesystem::path here = std::filesystem::current_path(error);
  return "by its path from " + (error ? "a folder that is no longer there" : here.string());
}

// Whether `value` is one of the words that the flag takes beside a path, as "auto".
bool IsWordOf(const Flag& flag, const std::string& value) {
  const std::vector<std::string> words = absl::StrSplit(flag.value, '|');
  return std::find(words.begin(), words.end(), value) != words.end();
}

// What reads a file takes a device or a pipe as well.
absl::Status CheckInput(const std::string& named, const std::string& path) {
  const bool folder = IsFolder(path);
  if (!folder && TypeOf(path) != std::filesystem::file_type::not_found) return absl::OkStatus();
  return UsageError(named + (folder ? ": it is a folder" : ": there is no such file"),
                    "expected a file that can be read, " + FromHere(),
                    "make it or correct its path, or run this where it is");
}

absl::Status CheckModel(const std::string& named, const std::string& path) {
  const bool folder = IsFolder(path);
  const std::string needed = folder ? path + "/config.json" : path;
  const bool is_model =
      (folder || IsGgufPath(path)) && TypeOf(needed) != std::filesystem::file_type::not_found;
  if (is_model) return absl::OkStatus();
  return UsageError(
      named + (folder ? ": it has no config.json" : ": there is no such model"),
      "expected a model directory in Hugging Face form, or a GGUF file, " + FromHere(),
      "baton model inspect " + path);
}

absl::Status CheckOutput(const std::string& named, const std::string& path) {
  if (IsFolder(path)) {
    return UsageError(named + ": it is a folder", "expected the path of a file in it",
                      path + "/eos.jsonl");
  }
  const std::filesystem::path folder = std::filesystem::path(path).parent_path();
  if (folder.empty() || IsFolder(folder)) return absl::OkStatus();
  return UsageError(absl::StrCat(named, ": there is no folder ", folder.string()),
                    "expected one in which the file can be made, " + FromHere(),
                    "mkdir -p " + folder.string());
}

absl::Status CheckPath(const Flag& flag, const std::string& path) {
  const std::string named = absl::StrCat(flag.name, " = ", path);
  switch (flag.path) {
    case PathUse::kNone:
      return absl::OkStatus();
    case PathUse::kInput:
      return CheckInput(named, path);
    case PathUse::kModel:
      return CheckModel(named, path);
    case PathUse::kOutput:
      return CheckOutput(named, path);
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckNamedPaths(const FlagSet& set) {
  UsageErrors errors;
  for (const Flag& flag : set.flags()) {
    // A command goes on without the file that it would make if nobody said anything.
    if (flag.path == PathUse::kNone || !set.Given(flag.name)) continue;
    for (const std::string& path : flag.get()) {
      if (!IsWordOf(flag, path)) errors.Add(CheckPath(flag, path));
    }
  }
  return errors.status();
}

}  // namespace baton
