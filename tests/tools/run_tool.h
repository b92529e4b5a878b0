#pragma once

#include <string>

#include "gtest/gtest.h"
#include "tools/commands.h"

namespace baton {

struct ToolRun {
  int exit = 0;
  std::string out, err;
};

// Runs a subcommand in this process.
inline ToolRun RunTool(const Arguments& arguments) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  ToolRun run;
  run.exit = RunBaton(arguments);
  run.out = ::testing::internal::GetCapturedStdout();
  run.err = ::testing::internal::GetCapturedStderr();
  return run;
}

}  // namespace baton
