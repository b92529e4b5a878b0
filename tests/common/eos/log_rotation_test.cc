// An EOS log that is rotated by size, with what becomes of its parts.
#include <algorithm>
#include <atomic>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "common/eos/eos_log.h"
#include "common/eos/line_source.h"
#include "common/eos/log_parts.h"
#include "common/eos/zstd_file.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/eventually.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

class LogRotationTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& suffix = "") const { return folder_ / ("log" + suffix); }
  bool Exists(const std::string& suffix) const { return std::filesystem::exists(Path(suffix)); }
  void Write(const std::string& suffix, const std::string& text) const {
    std::ofstream(Path(suffix), std::ios::binary) << text;
  }
  void Open(int32_t keep = 100, std::string meta = "{\"written\":1,\"a\":1}\n") {
    auto log = EosLog::Open({.path = Path(),
                             .meta_json = std::move(meta),
                             .max_bytes = kMaxBytes,
                             .keep = keep,
                             .clock = &clock_});
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = std::move(log).value();
  }
  // Appends one row and waits until it is in the file.
  void Append(int step) {
    const uint64_t before = log_->rows_written();
    EosRequestLog request(log_.get(), {.request_id = "r"});
    request.Accept({.timestamp = 1.5, .step = step, .id = 7, .signal = {}});
    request.Finish(FinishReason::kLength);
    ASSERT_TRUE(Eventually([&] { return log_->rows_written() > before; }));
  }
  void AppendAll(int first, int last) {
    for (int step = first; step <= last; ++step) Append(step);
  }
  void Settle() {
    ASSERT_TRUE(Eventually([&] { return log_->parts_are_kept(); }));
  }
  // The lines of one file, compressed or not.
  static std::vector<std::string> Lines(const std::string& path) {
    std::vector<std::string> lines;
    auto source = LineSource::Open(path);
    EXPECT_TRUE(source.ok()) << source.status();
    if (!source.ok()) return lines;
    std::string_view line;
    while (*source->Next(&line) == LineSource::Got::kLine) lines.emplace_back(line);
    EXPECT_EQ(source->rest(), "");
    return lines;
  }
  // The steps of all rows, over all parts and the file itself.
  std::vector<int> Steps() const {
    std::vector<int> steps;
    std::vector<std::string> files;
    for (const LogPart& part : PartsOf(Path())) files.push_back(part.path);
    files.push_back(Path());
    for (const std::string& file : files) {
      for (const std::string& line : Lines(file)) {
        steps.push_back(nlohmann::json::parse(line)["step"]);
      }
    }
    return steps;
  }
  static std::vector<int> Range(int first, int last) {
    std::vector<int> range;
    for (int i = first; i <= last; ++i) range.push_back(i);
    return range;
  }

  static constexpr int64_t kMaxBytes = 1000;  // two rows and some
  const ScratchFolder folder_;
  base::ManualClock clock_;
  std::unique_ptr<EosLog> log_;
};

TEST_F(LogRotationTest, FullFilesBecomePartsAndNoRowIsLost) {
  Open();
  AppendAll(1, 9);
  Settle();
  EXPECT_EQ(Steps(), Range(1, 9));
  const std::vector<LogPart> parts = PartsOf(Path());
  ASSERT_GE(parts.size(), 3u);
  for (const LogPart& part : parts) {
    EXPECT_TRUE(part.path.ends_with(".zst")) << part.path;
    EXPECT_TRUE(std::filesystem::exists(PartPath(Path(), part.number) + ".meta.json"));
  }
  EXPECT_LE(std::filesystem::file_size(Path()), static_cast<uint64_t>(kMaxBytes));
  EXPECT_EQ(log_->lines_dropped(), 0u);
  EXPECT_EQ(log_->upkeep_failures(UpkeepStep::kRotate), 0u);
  EXPECT_EQ(log_->upkeep_failures(UpkeepStep::kCompress), 0u);
}

TEST_F(LogRotationTest, SummariesTurnWithTheRows) {
  Open();
  log_->AppendSummary(R"({"request_id":"first"})");
  AppendAll(1, 3);
  log_->AppendSummary(R"({"request_id":"second"})");
  log_.reset();
  const auto parts = PartsOf(Path(), kRequestsSuffix);
  ASSERT_EQ(parts.size(), 1u);
  EXPECT_THAT(Lines(parts[0].path), ElementsAre(R"({"request_id":"first"})"));
  EXPECT_THAT(Lines(Path(".requests.jsonl")), ElementsAre(R"({"request_id":"second"})"));
}

TEST_F(LogRotationTest, ManySummariesTurnTheFilesToo) {
  Open();
  for (int i = 0; i < 3; ++i) {
    log_->AppendSummary("{\"request_id\":\"" + std::string(900, 'r') + "\"}");
    AppendAll(i + 1, i + 1);
  }
  Settle();
  EXPECT_GE(PartsOf(Path(), kRequestsSuffix).size(), 1u);
  EXPECT_EQ(Steps(), Range(1, 3));
}

TEST_F(LogRotationTest, TheOldestPartsAreRemoved) {
  Open(/*keep=*/2);
  AppendAll(1, 15);
  Settle();
  const std::vector<LogPart> parts = PartsOf(Path());
  ASSERT_EQ(parts.size(), 2u);
  const std::vector<int> steps = Steps();
  EXPECT_EQ(steps, Range(steps.front(), 15));
  EXPECT_GT(steps.front(), 1);
  size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder_.path())) {
    (void)entry;
    ++files;
  }
  EXPECT_EQ(files, 9u);  // rows, summaries and meta of two parts and of the log itself
}

TEST_F(LogRotationTest, WithoutASizeNothingTurns) {
  auto log = EosLog::Open({.path = Path(), .meta_json = "{}"});
  ASSERT_TRUE(log.ok());
  log_ = std::move(log).value();
  AppendAll(1, 9);
  log_.reset();
  EXPECT_THAT(PartsOf(Path()), IsEmpty());
  EXPECT_EQ(Steps(), Range(1, 9));
}

TEST_F(LogRotationTest, ARestartGoesOnWithFileAndNumbers) {
  Open();
  AppendAll(1, 4);
  log_.reset();
  const int64_t last = LastPartNumber(Path());
  Open();
  AppendAll(5, 9);
  Settle();
  EXPECT_EQ(Steps(), Range(1, 9));
  EXPECT_GT(LastPartNumber(Path()), last);
}

TEST_F(LogRotationTest, RowsOfOtherFactsBecomeAPartAtTheStart) {
  Open();
  Append(1);
  log_.reset();
  Open(100, "{\"written\":2,\"a\":1}\n");  // the same facts at another time
  EXPECT_THAT(PartsOf(Path()), IsEmpty());
  log_.reset();
  Open(100, "{\"written\":3,\"a\":2}\n");
  Append(2);
  log_.reset();
  ASSERT_EQ(PartsOf(Path()).size(), 1u);
  EXPECT_EQ(nlohmann::json::parse(Lines(Path(".1.meta.json"))[0])["a"], 1);
  EXPECT_EQ(nlohmann::json::parse(Lines(Path(".meta.json"))[0])["a"], 2);
  EXPECT_EQ(Steps(), Range(1, 2));
}

TEST_F(LogRotationTest, SoTheyDoWithoutASize) {
  const auto open = [&](const char* meta) {
    log_.reset();
    auto log = EosLog::Open({.path = Path(), .meta_json = meta});
    ASSERT_TRUE(log.ok()) << log.status();
    log_ = std::move(log).value();
  };
  open("{\"written\":1,\"a\":1}\n");
  AppendAll(1, 9);
  log_->AppendSummary(R"({"request_id":"r"})");
  open("{\"written\":2,\"a\":1}\n");
  EXPECT_THAT(PartsOf(Path()), IsEmpty());
  open("{\"written\":3,\"a\":2}\n");
  EXPECT_EQ(log_->upkeep_failures(UpkeepStep::kRotate), 0u);
  AppendAll(10, 19);
  log_.reset();
  ASSERT_EQ(PartsOf(Path()).size(), 1u);
  EXPECT_EQ(Lines(Path(".1")).size(), 9u);
  EXPECT_EQ(Lines(Path(".1.requests.jsonl")).size(), 1u);
  EXPECT_EQ(nlohmann::json::parse(Lines(Path(".1.meta.json"))[0])["a"], 1);
  EXPECT_EQ(nlohmann::json::parse(Lines(Path(".meta.json"))[0])["a"], 2);
  EXPECT_EQ(Steps(), Range(1, 19));
}

TEST_F(LogRotationTest, APartWhoseSummariesStayHasItsMeta) {
  Open();
  std::filesystem::create_directory(Path(".requests.jsonl.next"));  // no file can be opened there
  log_->AppendSummary(R"({"request_id":"r"})");
  AppendAll(1, 4);
  EXPECT_EQ(log_->upkeep_failures(UpkeepStep::kRotate), 1u);
  log_.reset();
  ASSERT_EQ(PartsOf(Path()).size(), 1u);
  ASSERT_TRUE(Exists(".1.meta.json"));
  EXPECT_EQ(nlohmann::json::parse(Lines(Path(".1.meta.json"))[0])["a"], 1);
  EXPECT_THAT(Lines(Path(".requests.jsonl")), ElementsAre(R"({"request_id":"r"})"));
  EXPECT_EQ(Steps(), Range(1, 4));
}

// What a process leaves that is killed at any moment of a rotation or a compression.
TEST_F(LogRotationTest, WhatAKilledProcessLeftIsTakenOver) {
  Open();
  AppendAll(1, 2);
  log_.reset();
  // Between the two renames: the rows have turned, there is no new file yet, the summaries are old.
  std::filesystem::rename(Path(), Path(".1"));
  Write(".next", "");
  Write(".requests.jsonl", "{\"request_id\":\"r\"}\n");
  Open();
  AppendAll(3, 4);
  log_.reset();
  EXPECT_EQ(Steps(), Range(1, 4));
  EXPECT_THAT(Lines(Path(".requests.jsonl")), ElementsAre("{\"request_id\":\"r\"}"));
  // Compressed, but the plain file is still there; and half of another compressed file.
  std::filesystem::remove(Path(".1.zst"));
  std::filesystem::rename(Path(), Path(".1"));
  ASSERT_TRUE(CompressFile(Path(".1"), Path(".1.zst"), [] { return false; }).ok());
  Write(".1.zst.tmp", "half");
  EXPECT_EQ(PartsOf(Path()).size(), 1u);
  Open();
  Settle();
  EXPECT_FALSE(Exists(".1"));
  EXPECT_FALSE(Exists(".1.zst.tmp"));
  EXPECT_EQ(Steps(), Range(3, 4));
}

TEST_F(LogRotationTest, APartWithoutMetaGetsThatOfItsTime) {
  const std::string meta = "{\"written\":1,\"a\":1}\n";
  Open();
  AppendAll(1, 6);
  Settle();
  log_.reset();
  const int64_t last = LastPartNumber(Path());
  ASSERT_GE(last, 2);
  // As a process leaves it that is killed between the rename and the meta.
  std::filesystem::remove(PartPath(Path(), last) + ".meta.json");
  std::filesystem::remove(Path(".1.meta.json"));
  // By other settings, which are not those of the part.
  Open(100, "{\"written\":2,\"a\":2}\n");
  std::ifstream mended(PartPath(Path(), last) + ".meta.json");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(mended), {}), meta);
  EXPECT_FALSE(Exists(".1.meta.json")) << "nobody knows what is true for an older one";
  Settle();
  EXPECT_EQ(Steps(), Range(1, 6));
}

TEST_F(LogRotationTest, APartOfSettingsBeforeTheLastStartDoesNotGetThoseOfThatStart) {
  Open();
  AppendAll(1, 2);
  log_.reset();
  std::filesystem::last_write_time(
      Path(), std::filesystem::last_write_time(Path()) - std::chrono::seconds(1));
  const std::string later = "{\"written\":2,\"a\":2}\n";
  Open(100, later);  // other settings: what is there becomes a part
  Settle();
  log_.reset();
  ASSERT_TRUE(Exists(".1.zst"));
  ASSERT_TRUE(std::filesystem::remove(Path(".1.meta.json")));
  Open(100, later);
  EXPECT_FALSE(Exists(".1.meta.json")) << "its rows are of other settings";
}

TEST_F(LogRotationTest, AFailedRotationCostsNoRowAndIsTriedAgainLater) {
  Open();
  std::filesystem::create_directory(Path(".next"));  // no file can be opened there
  AppendAll(1, 6);
  EXPECT_EQ(log_->upkeep_failures(UpkeepStep::kRotate), 1u);
  clock_.Advance(std::chrono::seconds(10));
  Append(7);
  EXPECT_EQ(log_->upkeep_failures(UpkeepStep::kRotate), 2u);
  EXPECT_THAT(PartsOf(Path()), IsEmpty());
  std::filesystem::remove(Path(".next"));
  clock_.Advance(std::chrono::seconds(10));
  Append(8);
  Settle();
  EXPECT_EQ(log_->upkeep_failures(UpkeepStep::kRotate), 2u);
  EXPECT_EQ(PartsOf(Path()).size(), 1u);
  EXPECT_EQ(Steps(), Range(1, 8));
  EXPECT_EQ(log_->lines_dropped(), 0u);
}

TEST_F(LogRotationTest, APartThatCannotBeCompressedStaysAsItIs) {
  std::filesystem::create_symlink("/dev/full", Path(".1.zst.tmp"));  // a disk without room
  Open();
  AppendAll(1, 7);
  Settle();
  EXPECT_EQ(log_->upkeep_failures(UpkeepStep::kCompress), 1u);
  EXPECT_TRUE(Exists(".1"));
  EXPECT_TRUE(Exists(".2.zst"));
  EXPECT_EQ(Steps(), Range(1, 7));
}

TEST_F(LogRotationTest, APartThatCannotBeRemovedIsCountedAndTheOthersGo) {
  std::filesystem::create_directories(Path(".1/inside"));
  Open(/*keep=*/2);
  AppendAll(1, 12);
  Settle();
  EXPECT_GE(log_->upkeep_failures(UpkeepStep::kRemove), 1u);
  EXPECT_TRUE(Exists(".1"));
  EXPECT_EQ(PartsOf(Path()).size(), 2u);
}

TEST_F(LogRotationTest, AFileThatSomebodyMovedAwayIsLeftThere) {
  Open();
  AppendAll(1, 2);
  std::filesystem::rename(Path(), Path(".moved"));
  AppendAll(3, 4);
  EXPECT_EQ(Lines(Path(".moved")).size(), 2u);
  EXPECT_EQ(Lines(Path()).size(), 2u);
  EXPECT_EQ(log_->upkeep_failures(UpkeepStep::kRotate), 0u);
}

TEST_F(LogRotationTest, AnotherFileInItsPlaceIsNotTouched) {
  Open();
  AppendAll(1, 2);
  std::filesystem::rename(Path(), Path(".moved"));
  Write("", "not ours\n");
  AppendAll(3, 4);
  EXPECT_EQ(log_->upkeep_failures(UpkeepStep::kRotate), 1u);
  EXPECT_EQ(Lines(Path(".moved")).size(), 4u);
  EXPECT_THAT(Lines(Path()), ElementsAre("not ours"));
}

TEST_F(LogRotationTest, ALogUnderALinkTurnsWhereItIs) {
  std::filesystem::create_directory(Path(".d"));
  const std::string real = Path(".d") + "/real";
  std::ofstream(real) << "";
  std::filesystem::create_symlink(real, Path());
  Open();
  AppendAll(1, 4);
  Settle();
  EXPECT_TRUE(std::filesystem::is_symlink(Path()));
  EXPECT_EQ(PartsOf(real).size(), 1u);
}

TEST_F(LogRotationTest, ASecondWriterNeverGetsAFileThatTurned) {
  Open();
  std::atomic<bool> end{false};
  std::thread other([&] {
    while (!end) {
      const auto taken = EosLog::Open({.path = Path(), .meta_json = "{}"});
      EXPECT_FALSE(taken.ok());
    }
  });
  AppendAll(1, 12);
  end = true;
  other.join();
  log_.reset();
  EXPECT_EQ(Steps(), Range(1, 12));
}

TEST(EosSampleTest, AShareOfIdsIsTakenAlwaysTheSame) {
  const ScratchFolder folder;
  const std::string path = folder / "eos.jsonl";
  const auto open = [&](double sample) {
    return *EosLog::Open({.path = path, .meta_json = "{}", .sample = sample});
  };
  std::vector<std::string> ids;
  for (int i = 0; i < 20000; ++i) ids.push_back("request-" + std::to_string(i));
  std::vector<std::vector<std::string>> taken;
  for (const double sample : {0.0, 0.1, 0.5, 1.0, 0.1}) {
    const auto log = open(sample);
    taken.emplace_back();
    for (const std::string& id : ids) {
      if (log->Samples(id)) taken.back().push_back(id);
    }
  }
  EXPECT_EQ(taken[0].size(), 0u);
  EXPECT_NEAR(static_cast<double>(taken[1].size()), 2000, 150);
  EXPECT_NEAR(static_cast<double>(taken[2].size()), 10000, 300);
  EXPECT_EQ(taken[3], ids);
  EXPECT_EQ(taken[4], taken[1]);
  EXPECT_TRUE(std::includes(taken[2].begin(), taken[2].end(), taken[1].begin(), taken[1].end(),
                            [](const auto& a, const auto& b) {
                              return a.size() < b.size() || (a.size() == b.size() && a < b);
                            }));
}

}  // namespace
}  // namespace baton
