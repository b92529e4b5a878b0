#include "common/config/exit_code.h"

#include "gtest/gtest.h"

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
