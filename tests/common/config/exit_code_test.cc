#include "common/config/exit_code.h"

#include <memory>
#include <sstream>

#include "common/base/log.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "spdlog/sinks/ostream_sink.h"

namespace baton {
namespace {

TEST(FatalLine, SaysWhatWhyAndWhatToTypeNext) {
  const Fatal fatal = {.code = ExitCode::kPortInUse,
                       .what = "cannot listen on 127.0.0.1:50051",
                       .why = "the port is in use",
                       .next = "--port 0 for any free port"};
  EXPECT_EQ(FatalLine("baton-router", fatal),
            "baton-router: fatal: cannot listen on 127.0.0.1:50051: the port is in use. "
            "Try: --port 0 for any free port");
  EXPECT_EQ(ReportFatal("baton-router", fatal), 5);
}

TEST(FatalLine, IsALineOfTheLogWhereThatIsJson) {
  std::ostringstream text;
  const auto sink = std::make_shared<spdlog::sinks::ostream_sink_mt>(text);
  ASSERT_TRUE(base::InitLog(base::LogFormat::kJson, "error", sink).ok());
  const Fatal fatal = {.code = ExitCode::kModel, .what = "cannot load", .why = "a \"b\" is gone"};
  EXPECT_EQ(ReportFatal("baton-decode", fatal), 3);
  const auto line = nlohmann::json::parse(text.str());
  EXPECT_EQ(line["level"], "critical");
  EXPECT_EQ(line["msg"], "fatal: cannot load: a \"b\" is gone.");
  text.str("");
  // Switched off, the log would swallow it.
  ASSERT_TRUE(base::InitLog(base::LogFormat::kJson, "off", sink).ok());
  ReportFatal("baton-decode", fatal);
  EXPECT_EQ(text.str(), "");
  ASSERT_TRUE(base::InitLog(base::LogFormat::kText, "info").ok());
}

TEST(FatalOf, SplitsAdviceFromTheReasonAndNeverLeavesItOut) {
  const auto of = [](const absl::Status& status) {
    return FatalLine("p", FatalOf(status, ExitCode::kModel, "cannot", "this"));
  };
  EXPECT_EQ(of(absl::NotFoundError("a; b; do it")), "p: fatal: cannot: a; b. Try: do it");
  EXPECT_EQ(of(absl::NotFoundError("it is gone")), "p: fatal: cannot: it is gone. Try: this");
  EXPECT_EQ(of(absl::NotFoundError("found 1; expected 2")),
            "p: fatal: cannot: found 1; expected 2. Try: this");
}

TEST(FatalOf, GivesPortsResourcesAndFlagsTheirOwnCodes) {
  const auto of = [](const absl::Status& status) {
    return FatalOf(status, ExitCode::kModel, "").code;
  };
  EXPECT_EQ(of(absl::AlreadyExistsError("")), ExitCode::kPortInUse);
  EXPECT_EQ(of(absl::ResourceExhaustedError("")), ExitCode::kResources);
  EXPECT_EQ(of(absl::OutOfRangeError("")), ExitCode::kUsage);
  EXPECT_EQ(of(absl::InvalidArgumentError("")), ExitCode::kModel);
}

TEST(FatalOf, SplitsTheMessageAndTakesTheCodeOfTheStatus) {
  const Fatal port = FatalOf(absl::AlreadyExistsError("h:1 is in use; stop its owner; or not"),
                             ExitCode::kUsage, "cannot serve");
  EXPECT_EQ(port.code, ExitCode::kPortInUse);
  EXPECT_EQ(port.what, "cannot serve");
  EXPECT_EQ(port.why, "h:1 is in use; stop its owner");
  EXPECT_EQ(port.next, "or not");
  const Fatal plain = FatalOf(absl::InternalError("broken"), ExitCode::kModel, "x");
  EXPECT_EQ(plain.code, ExitCode::kModel);
  EXPECT_EQ(plain.why, "broken");
  EXPECT_EQ(plain.next, "");
  EXPECT_EQ(FatalOf(absl::ResourceExhaustedError("a"), ExitCode::kModel, "x").code,
            ExitCode::kResources);
  EXPECT_EQ(FatalOf(absl::OutOfRangeError("a"), ExitCode::kModel, "x").code, ExitCode::kUsage);
}

TEST(ExitCode, NumbersAreTheDocumentedOnes) {
  EXPECT_EQ(ToInt(ExitCode::kOk), 0);
  EXPECT_EQ(ToInt(ExitCode::kRequestFailed), 1);
  EXPECT_EQ(ToInt(ExitCode::kUsage), 2);
  EXPECT_EQ(ToInt(ExitCode::kModel), 3);
  EXPECT_EQ(ToInt(ExitCode::kResources), 4);
  EXPECT_EQ(ToInt(ExitCode::kPortInUse), 5);
}

}  // namespace
}  // namespace baton
