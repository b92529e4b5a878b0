#include "tools/client/status_line.h"

#include <fcntl.h>
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
    fcntl(reader_.get(), F_SETFL, O_NONBLOCK);
    out_ = fdopen(ends[1], "w");
  }
  ~Terminal() { std::fclose(out_); }

  std::FILE* out() const { return out_; }

  std::vector<std::string> Rows() {
    std::fflush(out_);
    char bytes[4096];
    const ssize_t got = read(reader_.get(), bytes, sizeof(bytes));
    for (ssize_t i = 0; i < got; ++i) Take(bytes[i]);
    std::vector<std::string> shown = rows_;
    for (std::string& row : shown) row.resize(row.find_last_not_of(' ') + 1);
    return shown;
  }

 private:
  void Take(char byte) {
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
