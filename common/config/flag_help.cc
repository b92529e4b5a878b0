#include <algorithm>

#include "common/config/flag_set.h"

namespace baton {
namespace {

constexpr size_t kColumn = 34;  // where the texts begin
constexpr size_t kWidth = 100;

// `text` in lines that end before kWidth, all but the first indented to kColumn.
std::string Wrapped(const std::string& text) {
  std::string result;
  size_t column = kColumn;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    if (column + (end - begin) > kWidth && column > kColumn) {
      result.back() = '\n';  // the space before
      result += std::string(kColumn, ' ');
      column = kColumn;
    }
    result += text.substr(begin, end - begin) + " ";
    column += end - begin + 1;
    begin = end + 1;
  }
  if (!result.empty()) result.pop_back();
  return result;
}

std::string DefaultOf(const Flag& flag) {
  std::string joined;
  for (const std::string& value : flag.get()) joined += (joined.empty() ? "" : ",") + value;
  if (flag.value.empty() && joined == "false") return "";
  return joined.empty() ? "" : " [" + joined + "]";
}

std::string Line(const Flag& flag) {
  std::string names = "  --" + flag.name;
  for (const std::string& alias : flag.aliases) names += ", --" + alias;
  if (!flag.value.empty()) names += " " + flag.value;
  if (names.size() + 2 > kColumn) {
    names += "\n" + std::string(kColumn, ' ');
  } else {
    names.resize(kColumn, ' ');
  }
  return names + Wrapped(flag.help + DefaultOf(flag)) + "\n";
}

}  // namespace

std::string FlagSet::Help(bool all) const {
  std::string usage = program_;
  for (const Flag& flag : flags_) {
    if (flag.positional) usage += " " + flag.value;
  }
  std::string help = description_ + "\n\nUsage: " + usage + " [flags]\n";
  std::vector<std::string> groups;
  for (const Flag& flag : flags_) {
    if (std::find(groups.begin(), groups.end(), flag.group) == groups.end()) {
      groups.push_back(flag.group);
    }
  }
  for (const std::string& group : groups) {
    std::string lines;
    for (const Flag& flag : flags_) {
      if (flag.group != group || flag.hidden || flag.positional) continue;
      if (all || flag.common) lines += Line(flag);
    }
    if (!lines.empty()) help += "\n" + group + "\n" + lines;
  }
  help +=
      "\nEvery flag is also a BATON_* variable (--log-level: BATON_LOG_LEVEL) and a key of "
      "the file.\n";
  if (!all) help += "--help all lists every flag.\n";
  return help;
}

}  // namespace baton
