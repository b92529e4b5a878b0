#include <algorithm>
#include <atomic>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/config/exit_code.h"
#include "tools/batch/batch_flags.h"
#include "tools/batch/batch_input.h"
#include "tools/batch/batch_journal.h"
#include "tools/batch/batch_order.h"
#include "tools/batch/batch_progress.h"
#include "tools/batch/batch_run.h"
#include "tools/batch/batch_sender.h"
#include "tools/batch/own_service.h"
#include "tools/bench/stop_on_signal.h"
#include "tools/commands.h"

namespace baton {
namespace batch {
namespace {

void Tell(const std::string& text) { std::fputs((text + "\n").c_str(), stderr); }

absl::Status CheckTwoFiles(const BatchFlags& flags) {
  std::error_code ignored;
  if (!std::filesystem::equivalent(flags.in, flags.out, ignored)) return absl::OkStatus();
  return UsageError("IN and OUT", "both are " + flags.in, "another file for the answers");
}

void TellOfJournal(const BatchFlags& flags, const BatchJournal& journal) {
  if (journal.cut_bytes() > 0) {
    Tell(absl::StrCat(flags.out, ": a last line without an end, of ", journal.cut_bytes(),
                      " bytes, is dropped; its request is sent again"));
  }
  if (journal.dropped() > 0) {
    Tell(absl::StrCat(flags.out, ": ", journal.dropped(),
                      " answers that are errors are dropped; their requests are sent again"));
  }
  if (journal.done() > 0)
    Tell(absl::StrCat(flags.out, " has ", journal.done(), " answers already"));
}

// Takes out what the journal has. Every answer there must be to a line of the input.
absl::Status DropDone(const BatchFlags& flags, const BatchJournal& journal,
                      std::vector<InputLine>* lines) {
  const auto done = static_cast<int64_t>(
      std::erase_if(*lines, [&](const InputLine& line) { return journal.Has(line.key); }));
  if (done == journal.done()) return absl::OkStatus();
  return UsageError(
      absl::StrCat(flags.out, " has ", journal.done() - done, " answers to lines that ", flags.in,
                   flags.part.count > 1 ? ", part " + PartText(flags.part) + "," : "",
                   " does not have"),
      "it holds the answers to something else", "another file for the answers");
}

absl::StatusOr<std::unique_ptr<BatchSender>> Connect(const BatchFlags& flags,
                                                     const std::string& own) {
  bench::OpenAiClientOptions options;
  options.base_url = own.empty() ? flags.client.server : own;
  options.stream = false;
  options.look_up_once = false;
  options.timeout = flags.client.timeout;
  if (own.empty()) {
    options.api_key = OpenAiKeyOf(flags.client);
    options.as_tenant = flags.client.as_tenant;
    options.tls = ChannelOptionsOf(flags.client).tls;
    options.use_proxy = true;
  }
  return BatchSender::Connect(options, static_cast<size_t>(ConcurrencyOf(flags)));
}

// A line of the input or of the settings is the user's to mend; what the service did is a request's
// failure; the rest is the disk.
ExitCode CodeOf(const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return ExitCode::kUsage;
  const bool server = absl::IsUnavailable(status) || absl::IsUnauthenticated(status);
  return server ? ExitCode::kRequestFailed : ExitCode::kResources;
}

int Failure(const FlagSet& set, const absl::Status& status) {
  if (absl::IsInvalidArgument(status)) return ReportUsage(set.program(), status);
  return ReportFatal(set.program(), FatalOf(status, CodeOf(status), "cannot go on", kGoOn));
}

std::string Summary(const BatchFlags& flags, const BatchProgress& progress, bool complete) {
  std::string text =
      absl::StrFormat("%s: %d of %d lines done, %d failed; %d now", flags.out, progress.done,
                      progress.lines, progress.failed, progress.done_now);
  if (progress.done_now > 0) {
    text += absl::StrFormat(" in %.1f s, %.0f tokens/s", progress.elapsed_s,
                            static_cast<double>(progress.tokens) / progress.elapsed_s);
  }
  return text + (complete ? "\n" : "; the same command goes on with the rest\n");
}

int RunLines(const FlagSet& set, const BatchFlags& flags, const std::atomic<bool>& stop,
             const BatchInput& input, std::vector<InputLine> lines, BatchJournal* journal) {
  ProgressLine view(stderr);
  std::optional<OwnService> own;
  if (!flags.model.empty() && !lines.empty()) {
    Tell(absl::StrCat(lines.size(), " lines to do; starting workers for ", flags.model));
    own.emplace([&view](const std::string& line) { view.Say(line); });
    if (const auto failure = own->Start(ServeArguments(set, flags), stop)) {
      return ReportFatal(set.program(), *failure);
    }
    if (own->address().empty()) {
      Tell("stopped before workers were ready; the same command goes on");
      return ToInt(ExitCode::kRequestFailed);
    }
  }
  std::unique_ptr<BatchSender> sender;
  if (!lines.empty()) {
    auto connected = Connect(flags, own ? own->address() : "");
    if (!connected.ok()) return Failure(set, connected.status());
    sender = *std::move(connected);
  }
  BatchRun run({.concurrency = static_cast<size_t>(ConcurrencyOf(flags)),
                .patience = flags.patience,
                .stop = &stop,
                .look = [&own] { return own ? own->Look() : absl::OkStatus(); }},
               &input, std::move(lines), sender.get(), journal, &view);
  const absl::Status status = run.Run();
  sender.reset();  // before the service, which would wait for what is under way
  view.Erase();
  Print(Summary(flags, run.progress(), run.complete()));
  if (!status.ok()) return Failure(set, status);
  const bool good = run.complete() && run.progress().failed == 0;
  return ToInt(good ? ExitCode::kOk : ExitCode::kRequestFailed);
}

int Run(const FlagSet& set, const BatchFlags& flags) {
  const bench::StopOnSignal signal("stopping; what is answered is kept");
  if (const absl::Status two = CheckTwoFiles(flags); !two.ok()) return Failure(set, two);
  auto input = BatchInput::Open(flags.in, flags.part);
  if (!input.ok()) return Failure(set, input.status());
  auto journal = BatchJournal::Open(flags.out, flags.retry_failed);
  if (!journal.ok()) return Failure(set, journal.status());
  TellOfJournal(flags, *journal);
  std::vector<InputLine> lines = std::move(input->lines());
  if (const absl::Status fits = DropDone(flags, *journal, &lines); !fits.ok()) {
    return Failure(set, fits);
  }
  OrderByCost(&lines);
  return RunLines(set, flags, signal.stop(), *input, std::move(lines), &*journal);
}

}  // namespace
}  // namespace batch

int BatchCommand(const Invocation& call) {
  batch::BatchFlags flags;
  FlagSet set(
      "baton batch", "batch",
      "Answers a file of requests in OpenAI's batch format: lines of custom_id, method, url "
      "and body in IN,\nlines of id, custom_id, response and error in OUT. They go to "
      "workers that are started for MODEL, or to\na service that is there. A run that was "
      "interrupted goes on where it was. Exit 0 when every line has\na good answer, else "
      "1.");
  batch::BindBatch(&set, &flags);
  if (const auto exit = call.Read(&set)) return *exit;
  return batch::Run(set, flags);
}

}  // namespace baton
