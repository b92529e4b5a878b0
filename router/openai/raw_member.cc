#include "router/openai/raw_member.h"

#include <cstddef>
#include <string>

#include "nlohmann/json.hpp"

namespace baton {
namespace {

// Walks over the text of JSON that is known to be right. Beyond its end there are zero bytes.
class JsonWalk {
 public:
  explicit JsonWalk(std::string_view text) : text_(text) {}

  char Peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  void Next() { ++at_; }
  size_t at() const { return at_; }
  bool AtEnd() const { return at_ >= text_.size(); }

  void SkipBlanks() {
    while (Peek() == ' ' || Peek() == '\t' || Peek() == '\n' || Peek() == '\r') Next();
  }
  void SkipString() {
    Next();
    while (!AtEnd() && Peek() != '"') at_ += Peek() == '\\' ? 2 : 1;
    Next();
  }
  void SkipValue() {
    int depth = 0;
    while (!AtEnd()) {
      const char c = Peek();
      if (c == '"') {
        SkipString();
      } else {
        if (depth == 0 && (c == ',' || c == '}' || c == ']')) return;
        if (c == '{' || c == '[') ++depth;
        if (c == '}' || c == ']') --depth;
        Next();
      }
      if (depth == 0 && (c == '"' || c == '}' || c == ']')) return;
    }
  }
  std::string_view Since(size_t begin) const {
    return text_.substr(begin, at_ < text_.size() ? at_ - begin : std::string_view::npos);
  }

 private:
  const std::string_view text_;
  size_t at_ = 0;
};

std::string_view WithoutBlanks(std::string_view text) {
  const size_t last = text.find_last_not_of(" \t\n\r");
  return text.substr(0, last == std::string_view::npos ? 0 : last + 1);
}

bool IsKey(std::string_view written, std::string_view key) {
  if (written.find('\\') == std::string_view::npos) {
    return written.size() == key.size() + 2 && written.substr(1, key.size()) == key;
  }
  const auto parsed = nlohmann::json::parse(written, nullptr, /*allow_exceptions=*/false);
  return parsed.is_string() && parsed.get_ref<const std::string&>() == key;
}

}  // namespace

std::optional<std::string_view> RawMember(std::string_view object, std::string_view key) {
  JsonWalk walk(object);
  walk.SkipBlanks();
  if (walk.Peek() != '{') return std::nullopt;
  walk.Next();
  while (true) {
    walk.SkipBlanks();
    if (walk.Peek() == ',') {
      walk.Next();
      walk.SkipBlanks();
    }
    if (walk.Peek() != '"') return std::nullopt;
    const size_t key_begin = walk.at();
    walk.SkipString();
    const bool found = IsKey(walk.Since(key_begin), key);
    walk.SkipBlanks();
    walk.Next();  // the colon
    walk.SkipBlanks();
    const size_t begin = walk.at();
    walk.SkipValue();
    if (found) return WithoutBlanks(walk.Since(begin));
  }
}

}  // namespace baton
