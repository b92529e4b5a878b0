#include "common/eos/eos_log.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>
#include <thread>
#include <vector>

#include "nlohmann/json.hpp"
#include "tests/fakes/eventually.h"
#include "tests/fakes/hung_disk.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

class EosLogTest : public ::testing::Test {
 protected:
  std::unique_ptr<EosLog> Open(size_t queue_rows = 1024) {
    auto log = EosLog::Open({.path = path_, .meta_json = "{\"a\":1}\n", .queue_rows = queue_rows});
    EXPECT_TRUE(log.ok()) << log.status();
    return std::move(log).value();
  }
  static std::string Read(const std::filesystem::path& path) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    return text.str();
  }
  std::vector<nlohmann::json> Rows() const {
    std::vector<nlohmann::json> rows;
    std::istringstream text(Read(path_));
    for (std::string line; std::getline(text, line);) rows.push_back(nlohmann::json::parse(line));
    return rows;
  }
  static EosRequestLog::Token Token(int step) {
    return {.timestamp = 1.5, .step = step, .id = 7, .signal = {}, .attempt = 1};
  }

  const ScratchFolder scratch_;
  const std::filesystem::path folder_ = scratch_.path();
  const std::filesystem::path path_ = folder_ / "eos.jsonl";
};

TEST_F(EosLogTest, HoldsTheLastRowUntilTheEndIsKnown) {
  const auto log = Open();
  EosRequestLog request(log.get(), {.request_id = "r"});
  for (int step = 1; step <= 3; ++step) request.Accept(Token(step));
  ASSERT_TRUE(Eventually([&] { return log->rows_written() >= 2; }));
  ASSERT_EQ(Rows().size(), 2u);
  EXPECT_EQ(Rows()[1]["is_finished"], false);
  request.Finish(FinishReason::kLength);
  ASSERT_TRUE(Eventually([&] { return log->rows_written() >= 3; }));
  ASSERT_EQ(Rows().size(), 3u);
  EXPECT_EQ(Rows()[2]["finish_reason"], "length");
  EXPECT_EQ(log->lines_dropped(), 0u);
}

TEST_F(EosLogTest, RequestWithoutTokensHasNoRow) {
  {
    const auto log = Open();
    EosRequestLog(log.get(), {.request_id = "r"}).Finish(FinishReason::kError);
    log->AppendSummary("{\"request_id\":\"r\"}");
  }
  EXPECT_TRUE(Rows().empty());
  EXPECT_EQ(Read(path_.string() + ".requests.jsonl"), "{\"request_id\":\"r\"}\n");
  EXPECT_EQ(Read(path_.string() + ".meta.json"), "{\"a\":1}\n");
}

TEST_F(EosLogTest, RowsOfManyThreadsAreWholeLinesAndNoneIsLost) {
  {
    const auto log = Open(size_t{1} << 16);
    std::vector<std::thread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        EosRequestLog request(log.get(), {.request_id = std::to_string(t)});
        for (int step = 1; step <= 500; ++step) request.Accept(Token(step));
        request.Finish(FinishReason::kLength);
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::map<std::string, int> steps;
  for (const auto& row : Rows()) EXPECT_EQ(row["step"], ++steps[row["request_id"]]);
  EXPECT_EQ(steps, (std::map<std::string, int>{{"0", 500}, {"1", 500}, {"2", 500}, {"3", 500}}));
}

TEST_F(EosLogTest, GoesOnAfterTheLastWholeLineOfAnOldFile) {
  std::ofstream(path_) << "{\"old\":1}\n{\"torn\":";
  {
    const auto log = Open();
    EosRequestLog request(log.get(), {.request_id = "r"});
    request.Accept(Token(1));
    request.Finish(FinishReason::kLength);
  }
  ASSERT_EQ(Rows().size(), 2u);
  EXPECT_EQ(Rows()[0]["old"], 1);
  EXPECT_EQ(Rows()[1]["step"], 1);
}

TEST_F(EosLogTest, FileOfAnotherProcessIsRefused) {
  const auto log = Open();
  const auto second = EosLog::Open({.path = path_, .meta_json = "{}"});
  EXPECT_EQ(second.status().code(), absl::StatusCode::kFailedPrecondition);
}

TEST_F(EosLogTest, FileThatCannotBeOpenedIsRefusedWithItsName) {
  const auto log = EosLog::Open({.path = folder_ / "no" / "such.jsonl", .meta_json = "{}"});
  ASSERT_FALSE(log.ok());
  EXPECT_NE(std::string(log.status().message()).find("such.jsonl"), std::string::npos);
}

TEST_F(EosLogTest, ALinkToWhatReadersTakeForAPartIsRefused) {
  const std::filesystem::path link = folder_ / "link.jsonl";
  for (const std::string name : {"other.jsonl.7", "other.zst"}) {
    for (const bool there : {false, true}) {
      if (there) std::ofstream(folder_ / name) << "";
      std::filesystem::create_symlink(name, link);
      const auto log = EosLog::Open({.path = link, .meta_json = "{}"});
      EXPECT_EQ(log.status().code(), absl::StatusCode::kInvalidArgument) << name;
      const std::string said(log.status().message());
      EXPECT_NE(said.find(name), std::string::npos) << said;
      EXPECT_NE(said.find("a part of a log"), std::string::npos) << said;
      std::filesystem::remove(link);
    }
  }
  std::filesystem::create_symlink("other.jsonl", link);
  EXPECT_TRUE(EosLog::Open({.path = link, .meta_json = "{}"}).ok());
}

// /dev/full takes no byte: a disk without room.
TEST_F(EosLogTest, FullDiskDropsAndCountsAndNeverWaits) {
  auto rows = LineFile::Open("/dev/full");
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_EQ(rows->Append("line\n").code(), absl::StatusCode::kResourceExhausted);
  std::filesystem::create_symlink("/dev/full", path_);
  const auto log = Open();
  EosRequestLog request(log.get(), {.request_id = "r"});
  for (int step = 1; step <= 50; ++step) request.Accept(Token(step));
  request.Finish(FinishReason::kLength);
  ASSERT_TRUE(Eventually([&] { return log->lines_dropped() >= 50; }));
  EXPECT_EQ(log->lines_dropped(), 50u);
  EXPECT_EQ(log->rows_written(), 0u);
}

TEST_F(EosLogTest, DiskThatIsFullAtTheStartIsRefusedAndKeepsWhatIsThere) {
  std::ofstream(path_.string() + ".meta.json") << "old";
  const std::string temporary = path_.string() + ".meta.json.tmp";
  std::filesystem::create_symlink("/dev/full", temporary);
  const auto log = EosLog::Open({.path = path_, .meta_json = "{}"});
  EXPECT_EQ(log.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_NE(std::string(log.status().message()).find("eos.jsonl"), std::string::npos);
  EXPECT_FALSE(std::filesystem::exists(std::filesystem::symlink_status(temporary)));
  EXPECT_EQ(Read(path_.string() + ".meta.json"), "old");
}

// A log of a small queue on a disk that hangs.
class HungEosLogTest : public EosLogTest {
 protected:
  HungEosLogTest() : disk_(path_) {
    auto log = EosLog::Open({.path = path_, .meta_json = "{}", .queue_rows = 8, .clock = &clock_});
    EXPECT_TRUE(log.ok()) << log.status();
    log_ = std::move(log).value();
    Append();
    EXPECT_TRUE(Eventually([&] { return log_->writing(); }));
    for (int i = 0; i < 5; ++i) Append();
  }
  // Appends one row.
  void Append() {
    EosRequestLog request(log_.get(), {.request_id = "r"});
    request.Accept(Token(1));
    request.Finish(FinishReason::kLength);
    ++appended_;
  }
  static inline base::ManualClock clock_;  // a write may outlive its test
  testing::HungDisk disk_;
  std::unique_ptr<EosLog> log_;
  int64_t appended_ = 0;
};

TEST_F(HungEosLogTest, StopsAttemptsForAWhileAndThenCostsOnlyRows) {
  EXPECT_TRUE(log_->Congested());
  clock_.Advance(EosLog::kStalledAfter / 2);
  EXPECT_TRUE(log_->Congested());
  clock_.Advance(EosLog::kStalledAfter / 2);
  EXPECT_FALSE(log_->Congested());
  for (int i = 0; i < 100; ++i) Append();
  EXPECT_EQ(log_->lines_dropped(), 97u);  // the queue had room for 3
  EXPECT_FALSE(log_->Congested());
}

TEST_F(HungEosLogTest, WritesAgainWhenTheDiskComesBack) {
  clock_.Advance(EosLog::kStalledAfter);
  for (int i = 0; i < 100; ++i) Append();
  const auto kept = [&] { return appended_ - static_cast<int64_t>(log_->lines_dropped()); };
  EXPECT_TRUE(Eventually([&] { return disk_.TakeRows() == kept(); }));
  EXPECT_FALSE(log_->Congested());
  const uint64_t dropped = log_->lines_dropped();
  Append();
  EXPECT_TRUE(Eventually([&] { return disk_.TakeRows() == kept(); }));
  EXPECT_EQ(log_->lines_dropped(), dropped);
}

TEST_F(HungEosLogTest, EndsWithoutTheDisk) {
  clock_.Advance(EosLog::kStalledAfter);
  log_.reset();
}

}  // namespace
}  // namespace baton
