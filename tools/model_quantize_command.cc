#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <optional>

#include "absl/strings/str_format.h"
#include "common/config/exit_code.h"
#include "common/config/flag_types.h"
#include "common/model/quantize/quantize_checkpoint.h"
#include "tools/commands.h"

namespace baton {
namespace {

enum class Scheme : uint8_t { kW4, kW8, kFp8 };
enum class LmHead : uint8_t { kKeep, kW8 };

struct QuantizeFlags {
  std::string in;
  std::string out;
  Scheme kind = Scheme::kW4;
  LmHead lm_head = LmHead::kKeep;
  RoundingScheme scheme;
};

Flag Directory(const char* name, const char* value, std::string* directory, const char* help) {
  Flag flag = TextFlag(name, directory);
  flag.value = value;
  flag.help = help;
  flag.positional = flag.required = true;
  return flag;
}

void BindQuantize(FlagSet* set, QuantizeFlags* flags) {
  set->Add(Directory("in", "IN", &flags->in, "a Hugging Face directory with unquantized weights"));
  set->Add(Directory("out", "OUT", &flags->out, "a directory that is not there yet"));
  const Choices<Scheme> schemes = {{"w4", Scheme::kW4}, {"w8", Scheme::kW8}, {"fp8", Scheme::kFp8}};
  const Choices<int64_t> groups = {{"32", 32}, {"64", 64}, {"128", 128}};
  const Choices<RoundingMethod> methods = {
      {std::string(Name(RoundingMethod::kNearest)), RoundingMethod::kNearest},
      {std::string(Name(RoundingMethod::kSearch)), RoundingMethod::kSearch}};
  set->Add(Common(With(ChoiceFlag("scheme", &flags->kind, schemes), "Weights",
                       "integers of 4 or of 8 bits, or e4m3 with a scale for each row")));
  set->Add(Common(With(ChoiceFlag("group", &flags->scheme.group, groups), "Weights",
                       "columns of a row that share a scale; not with fp8")));
  set->Add(Common(With(ChoiceFlag("method", &flags->scheme.method, methods), "Weights",
                       "nearest: the scale that reaches the largest weight of a group; search: "
                       "the one with the smallest squared error; not with fp8")));
  const Choices<LmHead> outputs = {{"keep", LmHead::kKeep}, {"w8", LmHead::kW8}};
  set->Add(Common(With(ChoiceFlag("lm-head", &flags->lm_head, outputs), "Weights",
                       "the output projection: as it is, or integers of 8 bits (a tied one becomes "
                       "a weight of its own, beside the embeddings); not with fp8")));
}

// Tells a terminal, on one line of stderr, how far it is.
void ShowProgress(int64_t done, int64_t total) {
  if (isatty(STDERR_FILENO) == 0) return;
  std::fprintf(stderr, "\r%3d %% of %.2f GB%s",
               static_cast<int>(100 * done / std::max<int64_t>(1, total)),
               static_cast<double>(total) / 1e9, done == total ? "\n" : "");
  std::fflush(stderr);
}

std::string Told(const QuantizeFlags& flags, const QuantizeReport& report) {
  std::string text;
  double largest = 0;
  for (const RoundedProjection& projection : report.projections) {
    text +=
        absl::StrFormat("%-48s error %.2f %%\n", projection.name, 100 * projection.relative_error);
    largest = std::max(largest, projection.relative_error);
  }
  return text + absl::StrFormat("%s: %.1f MB from %.1f MB; largest error of a projection %.2f %%\n",
                                flags.out, static_cast<double>(report.bytes_after) / 1e6,
                                static_cast<double>(report.bytes_before) / 1e6, 100 * largest);
}

// What of the command line has no meaning with --scheme fp8.
std::optional<int> RefuseBesideFp8(const FlagSet& set, const QuantizeFlags& flags) {
  const char* refused = nullptr;
  if (set.Given("group") || set.Given("method")) {
    refused =
        "--group or --method with --scheme fp8, which has a scale for each row, that of its "
        "largest weight; leave them out";
  } else if (flags.lm_head != LmHead::kKeep) {
    refused =
        "--lm-head w8 with --scheme fp8, beside which the output projection stays as it is; leave "
        "it out, or take --scheme w8";
  }
  if (refused == nullptr) return std::nullopt;
  return ReportFatal(set.program(),
                     FatalOf(absl::OutOfRangeError(refused), ExitCode::kUsage,
                             "cannot quantize " + flags.in, "baton model quantize --help"));
}

}  // namespace

int ModelQuantizeCommand(const Invocation& call) {
  QuantizeFlags flags;
  FlagSet set("baton model quantize", "model",
              "Writes a model whose projections are integers of 4 or 8 bits, or e4m3 "
              "(compressed-tensors).");
  BindQuantize(&set, &flags);
  if (const auto exit = call.Read(&set)) return *exit;
  flags.scheme.bits = flags.kind == Scheme::kW8 ? 8 : 4;
  flags.scheme.fp8 = flags.kind == Scheme::kFp8;
  if (flags.scheme.fp8) {
    if (const auto exit = RefuseBesideFp8(set, flags)) return *exit;
  }
  const CheckpointRounding rounding = {.layers = flags.scheme,
                                       .output = flags.lm_head == LmHead::kW8};
  const auto report = QuantizeCheckpoint(flags.in, flags.out, rounding, ShowProgress);
  if (!report.ok()) {
    const bool there = report.status().code() == absl::StatusCode::kUnavailable;
    return ReportFatal(set.program(),
                       FatalOf(report.status(), there ? ExitCode::kResources : ExitCode::kModel,
                               "cannot quantize " + flags.in, "baton model quantize --help"));
  }
  Print(Told(flags, *report));
  return 0;
}

}  // namespace baton
