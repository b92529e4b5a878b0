#include "common/base/check.h"
#include "common/base/log.h"
#include "common/config/standard_files.h"
#include "common/rpc/library_log.h"
#include "tools/commands.h"

int main(int argc, char** argv) {
  baton::OpenStandardFiles();
  // Answers are on stdout. `serve` sets its log up again, as its flags say.
  const absl::Status log = baton::base::InitLog(baton::base::LogFormat::kText, "warn");
  BATON_CHECK(log.ok()) << log;
  baton::LogWhatLibrariesSay();
  return baton::RunBaton(baton::Arguments(argv + (argc > 0 ? 1 : 0), argv + argc));
}
