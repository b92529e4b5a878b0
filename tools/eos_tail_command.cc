#include <cstdio>
#include <optional>

#include "common/base/stop_signals.h"
#include "common/config/exit_code.h"
#include "common/config/flag_types.h"
#include "tools/commands.h"
#include "tools/eos/eos_flags.h"
#include "tools/eos/tail_log.h"

namespace baton {
namespace {

constexpr int64_t kRowsAtFirst = 20;
constexpr auto kLookEvery = std::chrono::milliseconds(100);

}  // namespace

int EosTailCommand(const Invocation& call) {
  TailOptions options;
  FlagSet set(
      "baton eos tail", "eos",
      "Shows the last rows of an EOS log, or all rows of one request, a line each. The bar is "
      "eos_prob on a\nlogarithmic scale. Exit 1 when a line is no row, but with --follow.");
  BindEosFile(&set, &options.path);
  set.Add(Common(With(Valued(TextFlag("request", &options.request_id), "ID"), "Rows",
                      "only those of this request")));
  set.Add(Common(With(OptionalInt64Flag("rows", &options.rows, {.min = 0, .max = 1'000'000}),
                      "Rows", "begin with so many of the last; default: 20, with --request all")));
  set.Add(Common(With(SwitchFlag("follow", &options.follow), "Rows",
                      "go on with what is written, until SIGINT")));
  if (const auto exit = call.Read(&set)) return *exit;
  if (!options.rows && options.request_id.empty()) options.rows = kRowsAtFirst;
  std::optional<base::StopSignals> signals;
  if (options.follow) signals.emplace();
  const TailHooks hooks = {
      .write = Print,
      .note = [](const std::string& sentence) { std::fprintf(stderr, "%s\n", sentence.c_str()); },
      // Where no row comes, nothing but a look tells that nobody reads any more.
      .wait = [&signals] { return !signals->Arrived(kLookEvery) && !ReaderIsGone(); }};
  const absl::StatusOr<int64_t> no_rows = TailLog(options, hooks);
  if (!no_rows.ok()) return ReportEosFailure(set, no_rows.status());
  const bool good = *no_rows == 0 || options.follow;
  return ToInt(good ? ExitCode::kOk : ExitCode::kRequestFailed);
}

}  // namespace baton
