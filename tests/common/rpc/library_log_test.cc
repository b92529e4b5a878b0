// What gRPC and protobuf say stands in our log, and nowhere else.
#include "common/rpc/library_log.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "common/base/log.h"
#include "google/protobuf/stubs/logging.h"
#include "grpc/support/log.h"

namespace baton {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::MatchesRegex;

// What reaches stderr while `say` runs, with our log at `level`.
std::string StderrOf(const char* level, const std::function<void()>& say,
                     base::LogFormat format = base::LogFormat::kText) {
  const auto kept = spdlog::default_logger();
  testing::internal::CaptureStderr();
  EXPECT_TRUE(base::InitLog(format, level).ok());
  LogWhatLibrariesSay();
  say();
  spdlog::default_logger()->flush();
  std::string text = testing::internal::GetCapturedStderr();
  spdlog::set_default_logger(kept);
  return text;
}

const std::string kTime = "20..-..-.. ..:..:...... ";

class LibraryLogTest : public testing::Test {
 protected:
  // What gRPC passes on at all; it decides when it is first used.
  LibraryLogTest() { gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR); }
  ~LibraryLogTest() override { gpr_set_log_verbosity(GPR_LOG_SEVERITY_ERROR); }
};

TEST_F(LibraryLogTest, GrpcSpeaksThroughOurLog) {
  EXPECT_THAT(
      StderrOf("info", [] { gpr_log("src/core/a.cc", 7, GPR_LOG_SEVERITY_ERROR, "x=%d", 3); }),
      MatchesRegex(kTime + "E gRPC: x=3 .a.cc:7.\n"));
  const auto json = StderrOf(
      "info", [] { gpr_log("a.cc", 7, GPR_LOG_SEVERITY_ERROR, "\"quoted\""); },
      base::LogFormat::kJson);
  EXPECT_THAT(json, HasSubstr(R"("level":"error")"));
  EXPECT_THAT(json, HasSubstr(R"(gRPC: \"quoted\" (a.cc:7))"));
}

TEST_F(LibraryLogTest, OurLevelDecidesWhatIsShown) {
  gpr_set_log_verbosity(GPR_LOG_SEVERITY_DEBUG);
  const auto say = [] {
    gpr_log("a.cc", 1, GPR_LOG_SEVERITY_DEBUG, "detail");
    gpr_log("a.cc", 1, GPR_LOG_SEVERITY_INFO, "news");
  };
  EXPECT_THAT(StderrOf("error", say), IsEmpty());
  EXPECT_THAT(StderrOf("info", say), MatchesRegex(kTime + "I gRPC: news .a.cc:1.\n"));
  EXPECT_THAT(StderrOf("debug", say), HasSubstr("D gRPC: detail"));
}

TEST_F(LibraryLogTest, ProtobufSpeaksThroughOurLog) {
  EXPECT_THAT(StderrOf("info", [] { GOOGLE_LOG(WARNING) << "odd field"; }),
              MatchesRegex(kTime + "W protobuf: odd field .library_log_test.cc:[0-9]+.\n"));
}

}  // namespace
}  // namespace baton
