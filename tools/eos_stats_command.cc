#include <cstdio>

#include "common/config/exit_code.h"
#include "common/config/flag_types.h"
#include "common/eos/log_parts.h"
#include "tools/commands.h"
#include "tools/eos/eos_flags.h"
#include "tools/eos/log_stats.h"
#include "tools/eos/stats_text.h"

namespace baton {

int EosStatsCommand(const Invocation& call) {
  std::vector<std::string> files;
  bool as_json = false;
  FlagSet set(
      "baton eos stats", "eos",
      "What EOS logs say of answers and their ends. Only stop_eos is a natural end; every "
      "other one is\ncensored. A runaway is an answer under eos_policy honor that ran to its "
      "limit (length) and is longer\nthan 99 of 100 natural answers of these logs.");
  BindEosFiles(&set, &files, /*required=*/true);
  set.Add(Common(With(SwitchFlag("json", &as_json), "Output", "as one JSON object")));
  if (const auto exit = call.Read(&set)) return *exit;
  LogStats stats;
  for (const LogFiles& log : LogsNamed(files)) {
    if (const absl::Status read = stats.ReadLog(log); !read.ok()) {
      return ReportEosFailure(set, read);
    }
  }
  Print(as_json ? StatsJson(stats) : StatsText(stats));
  for (const std::string& rest : stats.rests()) {
    std::fprintf(stderr, "%s: left out %s\n", set.program().c_str(), rest.c_str());
  }
  if (stats.unreadable() == 0) return ToInt(ExitCode::kOk);
  std::fprintf(stderr, "%s: %lld lines are no rows and left out; baton eos validate says which\n",
               set.program().c_str(), static_cast<long long>(stats.unreadable()));
  return ToInt(ExitCode::kRequestFailed);
}

}  // namespace baton
