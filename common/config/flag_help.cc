#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "common/config/flag_set.h"

namespace baton {
namespace {

constexpr size_t kColumn = 34;  // where the texts begin
constexpr size_t kWidth = 100;

// Of UTF-8: the bytes that do not go on with a character.
size_t CharactersOf(std::string_view text) {
  return static_cast<size_t>(
      std::ranges::count_if(text, [](char byte) { return (byte & 0xC0) != 0x80; }));
}

// `text` in lines that end before kWidth, all but the first indented to kColumn.
std::string Wrapped(const std::string& text) {
  std::string result;
  size_t column = kColumn;
  size_t begin = 0;
  while (begin < text.size()) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    const std::string word = text.substr(begin, end - begin);
    const size_t width = CharactersOf(word);
    if (column + width > kWidth && column > kColumn) {
      result.back() = '\n';  // the space before
      result += std::string(kColumn, ' ');
      column = kColumn;
    }
    result += word + " ";
    column += width + 1;
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
  const size_t width = CharactersOf(names);
  if (width + 2 > kColumn) {
    names += "\n" + std::string(kColumn, ' ');
  } else {
    names.append(kColumn - width, ' ');
  }
  return names + Wrapped(flag.help + DefaultOf(flag)) + "\n";
}

}  // namespace

std::string FlagSet::Usage() const {
  std::string usage = program_;
  for (const Flag& flag : flags_) {
    if (flag.positional) usage += " " + flag.value;
  }
  return usage;
}

std::string FlagSet::Help(bool all) const {
  std::string help = description_ + "\n\nUsage: " + Usage() + " [flags]\n";
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
