#pragma once

#include <cstddef>
#include <cstdio>
#include <string>

namespace baton {

// What a command says of its progress: on a terminal one line that is written again and again, cut
// to the width, elsewhere a plain line each time. Not thread-safe.
class StatusLine final {
 public:
  // `out` stays open; usually stderr.
  explicit StatusLine(std::FILE* out);
  // Takes the line away, as Erase does.
  ~StatusLine() { Erase(); }
  StatusLine(const StatusLine&) = delete;
  StatusLine& operator=(const StatusLine&) = delete;

  bool on_terminal() const { return terminal_; }

  // `text` is one line of printable characters.
  void Show(const std::string& text);
  // Something that stays, and is not cut.
  void Say(const std::string& text);
  // Takes away what is shown, so that what others print begins on an empty line.
  void Erase();

 private:
  std::FILE* const out_;
  const bool terminal_;
  size_t shown_ = 0;  // columns on the terminal's line
};

}  // namespace baton
