#include "tools/client/status_line.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <limits>
#include <string_view>

namespace baton {
namespace {

// Columns that a line may take. A character in the last one may already begin the next row, where
// nothing erases it.
size_t ColumnsOf(std::FILE* out) {
  winsize size{};
  const bool known = ioctl(fileno(out), TIOCGWINSZ, &size) == 0 && size.ws_col > 1;
  return known ? size.ws_col - size_t{1} : std::numeric_limits<size_t>::max();
}

struct Piece {
  std::string_view text;
  size_t columns = 0;
};

// The beginning of `text` that fits, a column for each character of UTF-8.
Piece Fitting(std::string_view text, size_t columns) {
  Piece piece;
  for (size_t end = 0; end < text.size(); ++end) {
    const bool begins = (static_cast<unsigned char>(text[end]) & 0xC0) != 0x80;
    if (begins && piece.columns == columns) return piece;
    piece.columns += begins ? 1 : 0;
    piece.text = text.substr(0, end + 1);
  }
  return piece;
}

}  // namespace

StatusLine::StatusLine(std::FILE* out) : out_(out), terminal_(isatty(fileno(out)) == 1) {}

void StatusLine::Show(const std::string& text) {
  if (!terminal_) {
    Say(text);
    return;
  }
  Erase();
  const Piece piece = Fitting(text, ColumnsOf(out_));
  std::fwrite(piece.text.data(), 1, piece.text.size(), out_);
  std::fflush(out_);
  shown_ = piece.columns;
}

void StatusLine::Say(const std::string& text) {
  Erase();
  std::fputs((text + "\n").c_str(), out_);
  std::fflush(out_);
}

void StatusLine::Erase() {
  if (shown_ == 0) return;
  std::fputs(("\r" + std::string(shown_, ' ') + "\r").c_str(), out_);
  std::fflush(out_);
  shown_ = 0;
}

}  // namespace baton
