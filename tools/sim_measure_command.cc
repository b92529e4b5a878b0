#include <string>

#include "common/config/bind.h"
#include "common/config/exit_code.h"
#include "common/config/flag_types.h"
#include "tools/commands.h"
#include "tools/planner/measure_steps.h"

namespace baton {
namespace {

struct MeasureFlags {
  std::string model_dir;
  DtypeFlag dtype = DtypeFlag::kAuto;
  KvDtypeFlag kv_dtype = KvDtypeFlag::kAuto;
  planner::MeasureOptions options;
};

void BindMeasure(FlagSet* set, MeasureFlags* flags) {
  BindModelDir(set, &flags->model_dir);
  const std::string group = "Simulated workers";
  set->Add(Common(With(IntFlag("threads", &flags->options.model.threads, {.min = 0, .max = 4096}),
                       group, "threads of the worker; 0: one per physical core")));
  set->Add(With(ChoiceFlag("dtype", &flags->dtype, CpuChoicesOf(DtypeFlag())), group,
                "type of the computation; auto: float32 for fp32 checkpoints, else bfloat16"));
  set->Add(With(ChoiceFlag("kv-dtype", &flags->kv_dtype, CpuChoicesOf(KvDtypeFlag())), group,
                "type of the KV cache; auto: that of the computation"));
  set->Add(With(IntFlag("max-prefill-tokens", &flags->options.max_prefill_tokens, {.min = 1}),
                group, "prompt tokens in one step; longer prompts are chunked"));
  set->Add(With(IntFlag("block-size", &flags->options.model.block_size, {.min = 1, .max = 1024}),
                group, "tokens in a block"));
}

std::optional<kernels::DType> GivenType(DtypeFlag flag) {
  if (flag == DtypeFlag::kAuto) return std::nullopt;
  return flag == DtypeFlag::kFloat32 ? kernels::DType::kF32 : kernels::DType::kBF16;
}

}  // namespace

int SimMeasureCommand(const Invocation& call) {
  MeasureFlags flags;
  FlagSet set("baton sim measure", "sim",
              "Loads a model on this machine's CPU and times the steps of one worker, of many "
              "sizes, for baton sim fit.\nLibgomp's threads spin unless GOMP_SPINCOUNT says for "
              "how long: 1000 is what baton serve gives.");
  BindMeasure(&set, &flags);
  if (const auto exit = call.Read(&set)) return *exit;
  flags.options.model.dtype = GivenType(flags.dtype);
  flags.options.model.kv_dtype = kernels::ParseKvDType(WordOf(flags.kv_dtype));
  const auto steps = planner::MeasureSteps(flags.model_dir, flags.options);
  if (!steps.ok()) {
    return ReportFatal(set.program(),
                       FatalOf(steps.status(), ExitCode::kModel,
                               "cannot measure " + flags.model_dir, "baton sim measure --help"));
  }
  Print(steps->dump() + "\n");
  return ToInt(ExitCode::kOk);
}

}  // namespace baton
