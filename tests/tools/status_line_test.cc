#include "tools/client/status_line.h"

#include <poll.h>
#include <pty.h>
#include <unistd.h>

#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/serve/child_process.h"

namespace baton {
namespace {

using ::testing::ElementsAre;

constexpr size_t kColumns = 20;

// A terminal, and what stands in its rows when `output` has come.
class Terminal final {
 public:
  Terminal() {
    winsize size{.ws_row = 24, .ws_col = kColumns, .ws_xpixel = 0, .ws_ypixel = 0};
    int ends[2] = {-1, -1};
    EXPECT_EQ(openpty(&ends[0], &ends[1], nullptr, nullptr, &size), 0);
    reader_ = UniqueFd(ends[0]);
    out_ = fdopen(ends[1], "w");
  }
  ~Terminal() { std::fclose(out_); }

  std::FILE* out() const { return out_; }

  std::vector<std::string> Rows() {
    // A terminal hands on what is written piece by piece, and this last.
    std::fputc(kEnd, out_);
    std::fflush(out_);
    pollfd readable = {.fd = reader_.get(), .events = POLLIN, .revents = 0};
    for (char byte = 0; byte != kEnd; Take(byte)) {
      if (poll(&readable, 1, 10'000) != 1 || read(reader_.get(), &byte, 1) != 1) {
        ADD_FAILURE() << "nothing more came";
        break;
      }
    }
    std::vector<std::string> shown = rows_;
    for (std::string& row : shown) row.resize(row.find_last_not_of(' ') + 1);
    return shown;
  }

 private:
  static constexpr char kEnd = '\x01';

  void Take(char byte) {
    if (byte == kEnd) return;
    if (byte == '\r') {
      column_ = 0;
    } else if (byte == '\n') {
      rows_.emplace_back();
    } else {
      rows_.back().resize(std::max(rows_.back().size(), column_ + 1), ' ');
      rows_.back()[column_++] = byte;
      if (column_ < kColumns) return;
      rows_.emplace_back();
      column_ = 0;
    }
  }

  UniqueFd reader_{-1};
  std::FILE* out_ = nullptr;
  std::vector<std::string> rows_ = {""};
  size_t column_ = 0;
};

TEST(StatusLine, IsWrittenAgainInOneRowOfATerminal) {
  Terminal terminal;
  StatusLine line(terminal.out());
  EXPECT_TRUE(line.on_terminal());
  const std::string text = "0123456789012345678";
  line.Show(text + "and more than the row has");
  EXPECT_THAT(terminal.Rows(), ElementsAre(text));
  line.Show("short");
  EXPECT_THAT(terminal.Rows(), ElementsAre("short"));
  line.Say("stays, and takes more than a row");
  line.Show("next");
  EXPECT_THAT(terminal.Rows(), ElementsAre("stays, and takes mor", "e than a row", "next"));
}

TEST(StatusLine, LeavesAnEmptyRowForOthers) {
  Terminal terminal;
  {
    StatusLine line(terminal.out());
    line.Show("first");
    line.Erase();
    std::fputs("of others\n", terminal.out());
    line.Show("second");
  }
  EXPECT_THAT(terminal.Rows(), ElementsAre("of others", ""));
}

TEST(StatusLine, IsAPlainLineElsewhere) {
  std::FILE* const file = std::tmpfile();
  {
    StatusLine line(file);
    EXPECT_FALSE(line.on_terminal());
    line.Show("much more than twenty columns");
    line.Show("next");
  }
  std::rewind(file);
  char text[100];
  EXPECT_EQ(std::string(text, std::fread(text, 1, sizeof(text), file)),
            "much more than twenty columns\nnext\n");
  std::fclose(file);
}

}  // namespace
}  // namespace baton
