#include "tools/serve/log_output.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <string>

#include "gtest/gtest.h"
#include "spdlog/logger.h"
#include "tools/serve/child_process.h"

namespace baton {
namespace {

using std::chrono::seconds;

class LogOutputTest : public ::testing::Test {
 protected:
  static constexpr size_t kMost = size_t{64} << 10;
  static constexpr base::Duration kNow = base::Duration::zero();

  LogOutputTest() {
    std::array<int, 2> fds{};
    EXPECT_EQ(pipe2(fds.data(), O_CLOEXEC), 0);
    read_ = UniqueFd(fds[0]);
    write_ = UniqueFd(fds[1]);
    fcntl(read_.get(), F_SETFL, O_NONBLOCK);
    fcntl(write_.get(), F_SETPIPE_SZ, 4096);  // little beside what is kept
    output_.emplace(write_.get(), kMost);
  }
  // The thread that writes must have let go of the pipe before that is closed.
  ~LogOutputTest() override {
    read_.Reset();
    EXPECT_TRUE(output_->Flush(seconds(30)));
  }

  // Adds more lines than can be kept and written. Returns how many.
  size_t AddTooMany() {
    size_t added = 0;
    for (; added * kLine.size() < 4 * kMost; ++added) output_->Add(kLine);
    return added;
  }
  // Reads what there is, until `done` or half a minute.
  void ReadUntil(const std::function<bool()>& done) {
    const base::Instant deadline = clock_.Now() + seconds(30);
    std::array<char, 4096> buffer{};
    bool is_done = false;
    while (!(is_done = done()) && clock_.Now() < deadline) {
      const ssize_t count = read(read_.get(), buffer.data(), buffer.size());
      if (count > 0) text_.append(buffer.data(), static_cast<size_t>(count));
    }
    EXPECT_TRUE(is_done);
  }
  size_t LinesRead() const { return static_cast<size_t>(std::ranges::count(text_, '\n')); }

  const std::string kLine = std::string(63, 'x') + "\n";
  const base::SteadyClock clock_;
  UniqueFd read_, write_;
  std::optional<LogOutput> output_;
  std::string text_;  // that was read
};

TEST_F(LogOutputTest, WritesWhatIsAddedInItsOrder) {
  output_->Add("one\n");
  output_->Add("two\nthree\n");
  ReadUntil([&] { return LinesRead() == 3; });
  EXPECT_EQ(text_, "one\ntwo\nthree\n");
  EXPECT_EQ(output_->TakeDropped(), 0u);
}

TEST_F(LogOutputTest, NobodyWaitsForAReaderThatDoesNotRead) {
  AddTooMany();
  EXPECT_FALSE(output_->Flush(kNow));
  EXPECT_EQ(output_->TakeDropped(), 0u) << "there is no room to tell of it";
}

TEST_F(LogOutputTest, TellsOnceHowManyLinesAreMissingWhenReadingGoesOn) {
  const size_t added = AddTooMany();
  size_t dropped = 0;
  ReadUntil([&] { return (dropped = output_->TakeDropped()) > 0; });
  EXPECT_EQ(output_->TakeDropped(), 0u);
  output_->Add("after the gap\n");
  ReadUntil([&] { return text_.ends_with("after the gap\n"); });
  EXPECT_EQ(LinesRead() - 1 + dropped, added);
}

TEST_F(LogOutputTest, AGapGoesOnUntilItIsTold) {
  const size_t added = AddTooMany();
  ReadUntil([&] { return output_->Flush(kNow); });
  output_->Add("inside the gap\n");
  const size_t dropped = output_->TakeDropped();
  output_->Add("after the gap\n");
  ReadUntil([&] { return text_.ends_with("after the gap\n"); });
  EXPECT_EQ(text_.find("inside"), std::string::npos);
  EXPECT_EQ(LinesRead() - 1 + dropped, added + 1);
}

TEST_F(LogOutputTest, SpdlogsLinesGoThere) {
  spdlog::logger logger("test", output_->Sink());
  logger.set_pattern("%L %v");
  logger.warn("hello");
  ReadUntil([&] { return LinesRead() == 1; });
  EXPECT_EQ(text_, "W hello\n");
}

TEST_F(LogOutputTest, WhatNobodyCanReadAnyMoreIsForgotten) {
  read_.Reset();
  output_->Add(kLine);
  EXPECT_TRUE(output_->Flush(seconds(30)));
}

}  // namespace
}  // namespace baton
