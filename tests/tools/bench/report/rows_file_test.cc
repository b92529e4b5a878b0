#include "tools/bench/report/rows_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>
#include <sys/resource.h>

#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>

#include "tests/fakes/scratch_folder.h"
#include "tests/tools/bench/figures/records.h"
#include "tests/tools/bench/search/mmc_server.h"
#include "tools/bench/report/result_json.h"

namespace baton::bench {
namespace {

namespace fs = std::filesystem;

class RowsFileTest : public testing::Test {
 protected:
  std::string Text(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

  const ScratchFolder scratch_;
  const fs::path folder_ = scratch_.path();
  const std::string path_ = scratch_ / "rows.jsonl";
};

// Everything that a record can hold.
RequestRecord FullRecord() {
  RequestRecord record = RecordOf(3, 1.0 / 3, {0.7, 0.9, 1.0 + 1e-9}, 123);
  record.sent = 0.35;
  record.ended = 1.1;
  record.cached_tokens = 16;
  record.natural_end_step = 2;
  record.attempts = 2;
  record.counted_by_server = false;
  record.timings = ServerTimings{1.5, 2.5, 3.5, 9.25};
  return record;
}

TEST_F(RowsFileTest, GivesTheSameFiguresAgain) {
  const MmcServer server{.servers = 4, .service_rate = 1};
  std::vector<LoadResult> loads = {server.Serve(3, 500, 1), server.Serve(2, 300, 2)};
  loads[0].records[5] = FullRecord();
  loads[0].records[7].status = absl::UnavailableError("gone \"away\"");
  loads[1].records[9].cancelled = true;
  auto rows = RowsFile::Create(path_);
  ASSERT_TRUE(rows.ok()) << rows.status();
  ASSERT_TRUE((*rows)->Append(loads[0], "run 1").ok());
  ASSERT_TRUE((*rows)->Append(loads[1], "run 2").ok());
  EXPECT_FALSE(fs::exists(path_)) << "not before it is whole";
  ASSERT_TRUE((*rows)->Close("").ok());
  EXPECT_FALSE(fs::exists(path_ + ".partial"));

  const auto content = ReadRows(path_);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_TRUE(content->complete);
  ASSERT_EQ(content->runs.size(), 2U);
  EXPECT_EQ(content->runs[1].label, "run 2");
  const auto slo = ParseSlo("ttft=1s,tpot=1s,max-gap=2s", 0);
  for (size_t i = 0; i < 2; ++i) {
    const LoadResult& again = content->runs[i].load;
    const auto figures = [&](const LoadResult& load) {
      return FiguresAsJson(ComputeFigures(load, MeasuredWindow(load, {}), *slo, 5)).dump();
    };
    EXPECT_EQ(figures(again), figures(loads[i]));
    EXPECT_EQ(again.lag_ms, loads[i].lag_ms);
    EXPECT_EQ(again.duration_s, loads[i].duration_s);
  }
}

TEST_F(RowsFileTest, KeepsEveryFieldOfARecord) {
  auto rows = RowsFile::Create(path_);
  ASSERT_TRUE(rows.ok());
  RequestRecord failed = RecordOf(4, 1, {});
  failed.status = absl::ResourceExhaustedError("full");
  ASSERT_TRUE((*rows)->Append(LoadOf({FullRecord(), failed}), "x").ok());
  ASSERT_TRUE((*rows)->Close("interrupted").ok());
  const auto content = ReadRows(path_);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_EQ(content->partial_reason, "interrupted");
  const RequestRecord& again = content->runs[0].load.records[0];
  const RequestRecord full = FullRecord();
  EXPECT_EQ(again.scheduled, full.scheduled);
  EXPECT_EQ(again.chunks[2].at, full.chunks[2].at);
  EXPECT_EQ(again.chunks.size(), full.chunks.size());
  EXPECT_EQ(again.request_id, "r3");
  EXPECT_EQ(again.cached_tokens, 16);
  EXPECT_EQ(again.natural_end_step, 2);
  EXPECT_EQ(again.attempts, 2);
  EXPECT_FALSE(again.counted_by_server);
  ASSERT_TRUE(again.timings.has_value());
  EXPECT_EQ(again.timings->ttft_ms, 9.25);
  EXPECT_EQ(content->runs[0].load.records[1].status, absl::ResourceExhaustedError("full"));
}

TEST_F(RowsFileTest, AFullDiskIsToldOfAndNothingElseIsWritten) {
  auto rows = RowsFile::Create(path_);
  ASSERT_TRUE(rows.ok());
  rows->reset();
  fs::remove(path_ + ".partial");
  fs::create_symlink("/dev/full", path_ + ".partial");
  const auto full = RowsFile::Create(path_);
  ASSERT_FALSE(full.ok());
  EXPECT_THAT(std::string(full.status().message()),
              testing::AllOf(testing::HasSubstr("No space left"), testing::HasSubstr("--rows")));
  EXPECT_FALSE(fs::exists(path_));
}

// A limit on the size of files stands for a disk that fills during a run.
TEST_F(RowsFileTest, ADiskThatFillsKeepsWhatWasWrittenAndGoesOnSayingSo) {
  auto rows = RowsFile::Create(path_);
  ASSERT_TRUE(rows.ok());
  std::vector<RequestRecord> records;
  for (int i = 0; i < 200; ++i) records.push_back(RecordOf(i, i, {i + 0.1, i + 0.2}));
  ASSERT_TRUE((*rows)->Append(LoadOf(records), "run 1").ok());
  const auto before = std::signal(SIGXFSZ, SIG_IGN);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit full{.rlim_cur = fs::file_size(path_ + ".partial") + 1000,
                    .rlim_max = limit.rlim_max};
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &full), 0);
  const absl::Status failed = (*rows)->Append(LoadOf(records), "run 2");
  ASSERT_EQ(setrlimit(RLIMIT_FSIZE, &limit), 0);
  std::signal(SIGXFSZ, before);
  ASSERT_FALSE(failed.ok());
  EXPECT_THAT(
      std::string(failed.message()),
      testing::AllOf(testing::HasSubstr("rows.jsonl.partial"), testing::HasSubstr("keeps")));
  EXPECT_EQ((*rows)->Close(""), failed) << "room again, but rows are missing";
  EXPECT_FALSE(fs::exists(path_));
  rows->reset();
  const auto content = ReadRows(path_ + ".partial");
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_FALSE(content->complete);
  EXPECT_TRUE(content->runs[0].complete);
  EXPECT_EQ(content->runs[0].load.records.size(), 200U);
}

TEST_F(RowsFileTest, AFolderThatIsNotThereIsAnError) {
  const auto rows = RowsFile::Create((folder_ / "none" / "rows.jsonl").string());
  ASSERT_FALSE(rows.ok());
  EXPECT_THAT(std::string(rows.status().message()),
              testing::AllOf(testing::HasSubstr("cannot write " + (folder_ / "none").string()),
                             testing::HasSubstr("--rows")));
}

TEST_F(RowsFileTest, APartialFileIsReadUpToItsLastWholeLine) {
  auto rows = RowsFile::Create(path_);
  ASSERT_TRUE(rows.ok());
  ASSERT_TRUE((*rows)->Append(LoadOf({RecordOf(0, 0, {1, 2}), RecordOf(1, 0, {1, 2})}), "a").ok());
  rows->reset();  // as if the process had died
  std::string text = Text(path_ + ".partial");
  text.resize(text.find("\"run\":0,\"index\":1") + 30);
  std::ofstream(path_) << text;
  const auto content = ReadRows(path_);
  ASSERT_TRUE(content.ok()) << content.status();
  EXPECT_FALSE(content->complete);
  ASSERT_EQ(content->runs.size(), 1U);
  EXPECT_FALSE(content->runs[0].complete);
  EXPECT_EQ(content->runs[0].load.records.size(), 1U);
  EXPECT_EQ(content->runs[0].load.duration_s, 2);
}

TEST_F(RowsFileTest, DefectsAreNamedWithTheirLine) {
  const auto error_of = [&](const std::string& text) {
    std::ofstream(path_) << text;
    const auto content = ReadRows(path_);
    return content.ok() ? std::string() : std::string(content.status().message());
  };
  const std::string header = "{\"schema\":\"baton.bench.rows/1\"}\n";
  EXPECT_THAT(error_of(""), testing::HasSubstr("empty"));
  EXPECT_THAT(error_of("{\"schema\":\"other\"}\n"), testing::HasSubstr("found schema 'other'"));
  EXPECT_THAT(error_of("{\"schema\":7}\n"), testing::HasSubstr("found schema '7'"));
  EXPECT_THAT(error_of("[]\n"), testing::HasSubstr("found schema 'null'"));
  EXPECT_THAT(error_of(header + "nonsense\n{}\n"), testing::HasSubstr(":2: not JSON"));
  EXPECT_THAT(error_of(header + "{\"run\":0,\"index\":0}\n"), testing::HasSubstr("scheduled"));
  EXPECT_THAT(error_of(header + "[]\n"), testing::HasSubstr(":2"));
  EXPECT_EQ(ReadRows((folder_ / "none").string()).status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(ReadRows(folder_.string()).status().message()),
              testing::HasSubstr("cannot read"))
      << "a folder opens as a file does, and fails when it is read";
}

TEST_F(RowsFileTest, AResultIsReplacedWholeOrNotAtAll) {
  const std::string path = (folder_ / "result.json").string();
  ASSERT_TRUE(WriteResult(path, {{"a", 1}}).ok());
  fs::create_symlink("/dev/full", path + ".tmp");
  const absl::Status full = WriteResult(path, {{"a", 2}});
  ASSERT_FALSE(full.ok());
  EXPECT_THAT(std::string(full.message()),
              testing::AllOf(testing::HasSubstr("No space left"), testing::HasSubstr("--out")));
  EXPECT_THAT(Text(path), testing::HasSubstr("\"a\": 1"));
  EXPECT_FALSE(fs::is_symlink(path + ".tmp"));
  EXPECT_FALSE(WriteResult((folder_ / "none" / "r.json").string(), {}).ok());
}

TEST_F(RowsFileTest, ADeviceIsWrittenInPlace) {
  const std::string path = (folder_ / "device").string();
  fs::create_symlink("/dev/null", path);
  EXPECT_TRUE(WriteResult(path, {{"a", 1}}).ok());
  auto rows = RowsFile::Create(path);
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_TRUE((*rows)->Close("").ok());
  EXPECT_EQ(fs::read_symlink(path), "/dev/null");

  fs::remove(path);
  fs::create_symlink("/dev/full", path);
  EXPECT_THAT(std::string(WriteResult(path, {{"a", 1}}).message()),
              testing::HasSubstr("No space left"));
  EXPECT_THAT(std::string(RowsFile::Create(path).status().message()),
              testing::HasSubstr("No space left"));
  EXPECT_EQ(fs::read_symlink(path), "/dev/full");
}

TEST_F(RowsFileTest, ALinkStaysAndWhatItLeadsToIsReplaced) {
  const std::string link = (folder_ / "link").string();
  for (const char* file : {"rows", "result"}) {
    fs::create_symlink(scratch_.Write(file, "old"), link);
    if (file == std::string("rows")) {
      auto rows = RowsFile::Create(link);
      ASSERT_TRUE(rows.ok()) << rows.status();
      EXPECT_EQ(Text(link), "old") << "not before it is whole";
      EXPECT_TRUE((*rows)->Close("").ok());
    } else {
      EXPECT_TRUE(WriteResult(link, {{"a", 1}}).ok());
    }
    EXPECT_TRUE(fs::is_symlink(link));
    EXPECT_THAT(Text(scratch_ / file), testing::StartsWith("{"));
    fs::remove(link);
  }
}

}  // namespace
}  // namespace baton::bench
