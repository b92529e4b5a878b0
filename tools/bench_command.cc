#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <memory>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/exit_code.h"
#include "tools/bench/bench_flags.h"
#include "tools/bench/bench_runs.h"
#include "tools/bench/bench_session.h"
#include "tools/bench/figures/figures.h"
#include "tools/bench/report/closing_table.h"
#include "tools/bench/report/plots.h"
#include "tools/bench/report/progress_view.h"
#include "tools/bench/report/result_json.h"
#include "tools/bench/report/rows_file.h"
#include "tools/bench/stop_on_signal.h"
#include "tools/commands.h"

namespace baton {
namespace bench {
namespace {

// The files that results go to. --plots needs both and keeps them beside the pictures.
struct Outputs {
  std::string result;
  std::string rows;
  std::optional<Plotter> plotter;
};

// Refuses outputs that could not be written, before any load is made.
absl::Status CheckFile(const std::string& file, const char* flag) {
  const std::string what = absl::StrCat(flag, " ", file);
  std::error_code ignored;
  if (std::filesystem::is_directory(file, ignored)) {
    return UsageError(what, "that is a folder", "a file in it");
  }
  std::error_code error;
  const std::filesystem::path parent = std::filesystem::absolute(file, error).parent_path();
  if (error) {
    return UsageError(what, "the folder that this runs in is no longer there",
                      "a path that begins with /");
  }
  if (access(parent.c_str(), W_OK) == 0) return absl::OkStatus();
  return UsageError(what,
                    absl::StrCat("the folder ", parent.string(), " is not there or not writable"),
                    "a folder that exists");
}

absl::Status CheckFiles(const Outputs& outputs) {
  if (!outputs.result.empty()) BATON_RETURN_IF_ERROR(CheckFile(outputs.result, "--out"));
  if (!outputs.rows.empty()) BATON_RETURN_IF_ERROR(CheckFile(outputs.rows, "--rows"));
  if (outputs.result.empty() || outputs.rows.empty()) return absl::OkStatus();
  std::error_code ignored;
  if (std::filesystem::weakly_canonical(outputs.result, ignored) !=
      std::filesystem::weakly_canonical(outputs.rows, ignored)) {
    return absl::OkStatus();
  }
  return UsageError("--out and --rows", "both name " + outputs.result, "two files");
}

absl::StatusOr<Outputs> PrepareOutputs(const BenchFlags& flags) {
  Outputs outputs = {.result = flags.out, .rows = flags.rows, .plotter = {}};
  if (!flags.plots.empty()) {
    BATON_ASSIGN_OR_RETURN(outputs.plotter, Plotter::Find("bench_plots"));
    std::error_code error;
    std::filesystem::create_directories(flags.plots, error);
    if (error) return UsageError("--plots " + flags.plots, error.message(), "another folder");
    if (outputs.result.empty()) outputs.result = flags.plots + "/result.json";
    if (outputs.rows.empty()) outputs.rows = flags.plots + "/rows.jsonl";
  }
  BATON_RETURN_IF_ERROR(CheckFiles(outputs));
  return outputs;
}

std::string_view EosName(EosChoice eos) {
  switch (eos) {
    case EosChoice::kHonor:
      return "honor";
    case EosChoice::kMask:
      return "mask";
    case EosChoice::kContinue:
      return "continue";
    case EosChoice::kBoth:
      return "both";
  }
  return "";
}

BenchResult Heading(const BenchFlags& flags, const Arguments& arguments,
                    const BenchSession& session) {
  BenchResult result;
  result.command = {"baton", "bench"};
  result.command.insert(result.command.end(), arguments.begin(), arguments.end());
  result.endpoint_type = flags.protocol == Protocol::kBaton ? "baton" : "openai";
  result.model_id = session.facts().model;
  result.tokenizer_id = flags.tokenizer.empty() ? session.facts().model : flags.tokenizer;
  result.eos = EosName(flags.eos);
  result.arrivals = ArrivalsName(flags);
  result.burstiness = Burstiness(flags);
  result.prompt_salt = session.prompt_salt();
  result.slo = session.slo();
  result.server = {{"address", flags.client.server},
                   {"vocab_size", session.facts().vocab_size},
                   {"max_model_len", session.facts().max_model_len}};
  return result;
}

// Whether what was measured can be believed. If not, what is wrong has been printed already.
bool Sound(const BenchResult& result) {
  for (const RunResult& run : result.runs) {
    if (!run.void_reason.empty() || run.whole_run.failed > 0) return false;
  }
  return result.partial_reason.empty() && (!result.find_max || result.find_max->best.has_value());
}

// A server that does not answer is a failed request; everything else that keeps a run from starting
// is in what was typed.
ExitCode CodeOf(const absl::Status& status) {
  const bool server = absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status);
  return server ? ExitCode::kRequestFailed : ExitCode::kUsage;
}

int Failure(const FlagSet& set, const absl::Status& status, ExitCode code) {
  return ReportFatal(set.program(), FatalOf(status, code, "no load was made"));
}

std::string MessageOf(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

void Warn(const absl::Status& status) {
  std::fputs(("baton bench: " + MessageOf(status) + "\n").c_str(), stderr);
}

// Each output is tried, whatever became of the others.
bool WriteOutputs(const BenchFlags& flags, const Outputs& outputs, const BenchResult& result,
                  RowsFile* rows) {
  absl::Status first;
  if (rows != nullptr) first.Update(rows->Close(result.partial_reason));
  if (!outputs.result.empty()) first.Update(WriteResult(outputs.result, ResultAsJson(result)));
  if (first.ok() && outputs.plotter) {
    first.Update(outputs.plotter->Draw({outputs.result, outputs.rows}, flags.plots));
  }
  if (!first.ok()) Warn(first);
  return first.ok();
}

absl::Status MeasureAndPrint(const BenchFlags& flags, BenchSession* session, RowsFile* rows,
                             BenchResult* result) {
  if (flags.find_max == SearchKind::kNone) {
    const absl::Status status = MakeRuns(flags, session, rows, result);
    if (!result->runs.empty()) Print(ClosingTable(*result));
    return status;
  }
  const absl::Status status = MakeSearch(
      flags, session, rows,
      [](const SearchPoint& point) {
        std::fputs(("  " + PointText(point) + "\n").c_str(), stderr);
      },
      result);
  if (result->find_max && !result->find_max->points.empty()) {
    Print(SearchTable(*result->find_max, *result->find_max_variable, *result->slo));
  }
  return status;
}

bool Measured(const BenchResult& result) {
  return !result.runs.empty() || (result.find_max && !result.find_max->points.empty());
}

int Measure(const FlagSet& set, const BenchFlags& flags, const Arguments& arguments) {
  const StopOnSignal signals;
  const auto outputs = PrepareOutputs(flags);
  if (!outputs.ok()) return Failure(set, outputs.status(), ExitCode::kUsage);
  ProgressView progress(stderr);
  const auto session = BenchSession::Open(flags, &signals.stop(), &progress);
  if (!session.ok()) return Failure(set, session.status(), CodeOf(session.status()));
  std::unique_ptr<RowsFile> rows;
  if (!outputs->rows.empty()) {
    auto created = RowsFile::Create(outputs->rows);
    if (!created.ok()) return Failure(set, created.status(), ExitCode::kResources);
    rows = *std::move(created);
  }
  if (const std::string caution = Caution(flags); !caution.empty()) {
    std::fputs(("baton bench: " + caution + "\n").c_str(), stderr);
  }
  BenchResult result = Heading(flags, arguments, **session);
  const absl::Status status = MeasureAndPrint(flags, session->get(), rows.get(), &result);
  if (!Measured(result) && !status.ok()) return Failure(set, status, CodeOf(status));
  if (!status.ok()) {
    Warn(status);
    if (result.partial_reason.empty()) result.partial_reason = MessageOf(status);
  }
  const bool written = WriteOutputs(flags, *outputs, result, rows.get());
  return ToInt(written && status.ok() && Sound(result) ? ExitCode::kOk : ExitCode::kRequestFailed);
}

int Run(const Invocation& call) {
  BenchFlags flags;
  FlagSet set("baton bench", "bench",
              "Loads a server, and says how fast it answered and up to what load it keeps limits.");
  BindBench(&set, &flags);
  if (const auto exit = call.Read(&set)) return *exit;
  if (flags.explain) {
    Print(ExplainFigures());
    return ToInt(ExitCode::kOk);
  }
  return Measure(set, flags, call.arguments);
}

}  // namespace
}  // namespace bench

int BenchCommand(const Invocation& call) { return bench::Run(call); }

}  // namespace baton
