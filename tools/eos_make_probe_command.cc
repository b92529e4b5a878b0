#include "absl/strings/str_cat.h"
#include "common/base/output_file.h"
#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/exit_code.h"
#include "common/config/flag_types.h"
#include "common/formats/eos_probe_file.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "common/model/fingerprint.h"
#include "common/model/model_options.h"
#include "common/model/weights.h"
#include "tools/commands.h"

namespace baton {
namespace {

struct MakeProbeFlags {
  std::string model_dir;
  std::string out;
  int32_t dims = kMaxEosProbeDims;
  std::optional<int32_t> layer;
  std::optional<int64_t> seed;
  DtypeFlag dtype = DtypeFlag::kAuto;
};

void BindMakeProbe(FlagSet* set, MakeProbeFlags* flags) {
  BindModelDir(set, &flags->model_dir);
  Flag out = Valued(TextFlag("out", &flags->out), "FILE");
  out.required = true;
  set->Add(Common(With(std::move(out), "Output", "the probe file")));
  const std::string group = "Probe";
  set->Add(Common(With(IntFlag("dims", &flags->dims, {.min = 1, .max = kMaxEosProbeDims}), group,
                       "directions, at most the model's hidden size")));
  set->Add(
      Common(With(OptionalIntFlag("after-layer", &flags->layer, {.min = 0}), group,
                  "look at the state after this layer, from 0; default: the normed last one")));
  set->Add(Common(With(OptionalInt64Flag("seed", &flags->seed, {.min = 0, .max = INT64_MAX}), group,
                       "of the directions; default 0")));
  set->Add(With(ChoiceFlag("dtype", &flags->dtype), group,
                "what workers will compute in, a part of the fingerprint; auto: as theirs"));
}

absl::StatusOr<EosProbeFile> MakeProbe(const MakeProbeFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(flags.model_dir));
  BATON_ASSIGN_OR_RETURN(const auto files, CheckpointFiles::Open(flags.model_dir));
  const kernels::DType dtype =
      ResolveComputeDType(kernels::ParseDType(WordOf(flags.dtype)), config, *files);
  const auto seed = static_cast<uint64_t>(flags.seed.value_or(0));
  EosProbeFile file = {.kind = EosProbeKind::kRandom, .seed = seed};
  BATON_ASSIGN_OR_RETURN(file.model_fingerprint, ModelFingerprint(flags.model_dir, *files, dtype));
  BATON_ASSIGN_OR_RETURN(file.probe,
                         MakeRandomEosProbe(config.hidden, flags.dims, flags.layer, seed));
  BATON_RETURN_IF_ERROR(CheckProbeFits(file.probe, config));
  return file;
}

}  // namespace

int EosMakeProbeCommand(const Invocation& call) {
  MakeProbeFlags flags;
  FlagSet set("baton eos make-probe", "eos",
              "Writes a probe file of random directions for a model: what workers given it by "
              "--probe\nreturn for each token is a record to train on. docs/eos-probes.md");
  BindMakeProbe(&set, &flags);
  if (const auto exit = call.Read(&set)) return *exit;
  const auto file = MakeProbe(flags);
  if (!file.ok()) {
    const ExitCode code =
        absl::IsInvalidArgument(file.status()) ? ExitCode::kUsage : ExitCode::kModel;
    return ReportFatal(set.program(),
                       FatalOf(file.status(), code, "cannot make a probe for " + flags.model_dir,
                               "baton model inspect " + flags.model_dir));
  }
  const absl::Status written = WriteWholeFile(flags.out, EosProbeFileText(*file));
  if (!written.ok()) {
    return ReportFatal(set.program(), FatalOf(written, ExitCode::kResources,
                                              "cannot write " + flags.out, "--out FILE"));
  }
  if (!IsWrittenInPlace(flags.out)) Print(absl::StrCat(flags.out, "\n"));
  return ToInt(ExitCode::kOk);
}

}  // namespace baton
