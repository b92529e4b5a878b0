#include "tools/planner/plan_flags.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"
#include "common/config/units.h"
#include "common/model/model_options.h"
#include "tools/bench/plan/plan_builder.h"
#include "tools/sim/sim_figures.h"

namespace baton::planner {
namespace {

// How many requests are simulated where nobody says: enough that one of a hundred is seen, and that
// the load lasts while the first ones are served several times over; no more than a simulation
// takes a second or two for.
constexpr int32_t kFewestRequests = 1000;
constexpr double kMostOutputTokens = 2e6;
constexpr double kLivesOfALoad = 8;
constexpr double kShortestLoad = 60;     // seconds
constexpr double kUnlimitedTpotMs = 50;  // stands in for a limit that was not set

void BindQuestion(FlagSet* set, PlanFlags* flags) {
  const std::string group = "Plan";
  Flag slo = Valued(TextFlag("slo", &flags->slo), "ttft=500ms,tpot=50ms");
  slo.required = true;
  set->Add(Common(With(std::move(slo), group,
                       "limits on ttft, tpot and e2e, all of which percentile=99 per cent of the "
                       "requests have to keep")));
  Flag hardware = Valued(TextFlag("hardware", &flags->hardware), "FILE|measured");
  hardware.required = true;
  set->Add(
      Common(With(std::move(hardware), group,
                  "a file like those in deploy/hardware, or measured for this machine's cores")));
  set->Add(Common(With(IntFlag("max-devices", &flags->max_devices, {.min = 1, .max = 4096}), group,
                       "how many devices there may be")));
  const Choices<RolesAllowed> roles = {{"any", RolesAllowed::kAny},
                                       {"unified", RolesAllowed::kUnified},
                                       {"split", RolesAllowed::kSplit}};
  set->Add(Common(With(ChoiceFlag("mode", &flags->roles, roles), group,
                       "which roles workers may have: one kind that does both, or prefill and "
                       "decode workers")));
  set->Add(
      With(IntFlag("tensor-parallel-size", &flags->tensor_parallel_size, {.min = 0, .max = 64}),
           group, "devices of a worker; 0: whatever is best"));
  set->Add(With(DoubleFlag("message-ms", &flags->load.message_ms, {.min = 0, .max = 1e4}), group,
                "time of a message between two processes, one way; measured where the rest is"));
  set->Add(Common(With(SwitchFlag("json", &flags->as_json), group, "as one JSON object")));
}

void BindModelUse(FlagSet* set, PlanFlags* flags) {
  const std::string group = "Simulated workers";
  set->Add(With(ChoiceFlag("dtype", &flags->dtype, CpuChoicesOf(DtypeFlag())), group,
                "type of the computation; auto: float32 for fp32 checkpoints, else bfloat16"));
  set->Add(With(ChoiceFlag("kv-dtype", &flags->kv_dtype, CpuChoicesOf(KvDtypeFlag())), group,
                "type of the KV cache; auto: that of the computation"));
  const Choices<kernels::Quantization> quantizations = {{"none", kernels::Quantization::kNone},
                                                        {"fp8", kernels::Quantization::kFp8}};
  set->Add(With(ChoiceFlag("quantization", &flags->quantization, quantizations), group,
                "how the layers' projections are kept"));
  set->Add(With(IntFlag("max-model-len", &flags->load.max_model_len, {.min = 0}), group,
                "tokens of prompt and output together; 0: as the model says"));
  set->Add(With(IntFlag("max-prefill-tokens", &flags->max_prefill_tokens, {.min = 1}), group,
                "prompt tokens in one step; longer prompts are chunked"));
  set->Add(With(IntFlag("max-num-batched-tokens", &flags->max_num_batched_tokens, {.min = 1}),
                group, "tokens in one step; decode rows beyond it wait their turn"));
  set->Add(With(IntFlag("block-size", &flags->block_size, {.min = 1, .max = 1024}), group,
                "tokens in a block"));
}

absl::Status CheckPlanFlags(const FlagSet& set, const PlanFlags& flags) {
  const simulator::SimFlags& load = flags.load;
  BATON_RETURN_IF_ERROR(bench::CheckOneLoad(load.rate.has_value(), load.concurrency.has_value(),
                                            !load.trace.empty()));
  if ((set.Given("input-tokens") || set.Given("output-tokens")) && !load.trace.empty()) {
    return UsageError("--input-tokens or --output-tokens with a trace", "it has its own lengths",
                      "only one of them");
  }
  if (set.Given("burstiness") && !load.rate) {
    return UsageError("--burstiness without --rate",
                      "a closed loop and traces have arrivals of their own", "--rate 5");
  }
  for (const char* name : {"time-scale", "trace-block-tokens"}) {
    if (!set.Given(name) || !load.trace.empty()) continue;
    return UsageError(absl::StrCat("--", name, " without --trace"), "it is about a trace's rows",
                      "--trace FILE");
  }
  if (flags.measured() && flags.quantization != kernels::Quantization::kNone) {
    return UsageError("--quantization fp8 with --hardware measured",
                      "only GPUs keep projections so, and cores are measured", "--hardware FILE");
  }
  if (flags.measured() && (set.Given("max-devices") || flags.tensor_parallel_size > 1)) {
    return UsageError("--max-devices or --tensor-parallel-size with --hardware measured",
                      "it plans for this machine's cores, which it measures",
                      "--hardware FILE for other machines");
  }
  return absl::OkStatus();
}

double LimitMs(const bench::Slo& slo, bench::SloMetric metric, double otherwise) {
  for (const bench::SloLimit& limit : slo.limits) {
    if (limit.metric == metric) return limit.limit_ms;
  }
  return otherwise;
}

// How many requests of the load to simulate, when nobody said.
absl::StatusOr<int32_t> RequestsOf(const simulator::SimFlags& load, const bench::Slo& slo) {
  simulator::SimFlags few = load;
  few.requests = kFewestRequests;
  BATON_ASSIGN_OR_RETURN(const bench::PlanOptions plan, simulator::PlanOf(few, 0));
  BATON_ASSIGN_OR_RETURN(const simulator::Workload sample, simulator::PlannedWorkload(plan));
  const LoadFacts facts = FactsOf(sample.requests, load.concurrency.value_or(0),
                                  load.trace_block_tokens, load.shared_prefix_tokens);
  const double most = std::max(1.0 * kFewestRequests, kMostOutputTokens / facts.output_tokens);
  if (load.concurrency) {
    return static_cast<int32_t>(std::min(most, std::max(200.0, kLivesOfALoad * *load.concurrency)));
  }
  const double tpot = LimitMs(slo, bench::SloMetric::kTpot, kUnlimitedTpotMs);
  const double life = 1e-3 * LimitMs(slo, bench::SloMetric::kE2e, tpot * facts.output_tokens);
  const double wanted = facts.rate * std::max(kShortestLoad, kLivesOfALoad * life);
  return static_cast<int32_t>(std::clamp(wanted, 1.0 * kFewestRequests, most));
}

}  // namespace

PlanFlags::PlanFlags() {
  load.runs = 3;
  load.max_model_len = 0;
}

void BindPlan(FlagSet* set, PlanFlags* flags) {
  BindModelDir(set, &flags->model_dir);
  BindQuestion(set, flags);
  simulator::BindSimLoad(set, &flags->load);
  // Lengths come from --input-tokens and --output-tokens or a trace, and requests give no limit.
  set->Remove("answers");
  set->Remove("max-tokens");
  set->Remove("class-boundary");  // a plan is simulated with one class
  set->Edit("requests").help = "how many; 0: what lasts a minute and eight answers";
  set->Edit("warmup").help = "who comes before is not judged; 0: a fifth under --rate";
  BindModelUse(set, flags);
  set->AddCheck([set, flags] { return CheckPlanFlags(*set, *flags); });
}

ModelUse ModelUseOf(const PlanFlags& flags, const ModelConfig& config) {
  ModelUse model{.config = config};
  model.compute_dtype =
      ResolveComputeDType(kernels::ParseDType(WordOf(flags.dtype)), config, flags.model_dir);
  model.kv_dtype = kernels::ParseKvDType(WordOf(flags.kv_dtype)).value_or(model.compute_dtype);
  model.quantization = flags.quantization;
  model.block_size = flags.block_size;
  model.max_prefill_tokens = flags.max_prefill_tokens;
  model.max_num_batched_tokens = flags.max_num_batched_tokens;
  return model;
}

absl::StatusOr<Question> QuestionOf(const PlanFlags& flags, const ModelUse& model) {
  Question question{.model = model};
  BATON_ASSIGN_OR_RETURN(question.slo, simulator::ParseSimSlo(flags.slo));
  simulator::SimFlags load = flags.load;
  const int32_t positions = model.config.max_positions;
  if (load.max_model_len > positions) {
    return absl::InvalidArgumentError(absl::StrCat("--max-model-len is ", load.max_model_len,
                                                   "; expected at most ", positions,
                                                   ", the positions that the model knows"));
  }
  if (load.max_model_len == 0) load.max_model_len = positions;
  if (load.requests == 0 && load.duration == base::Duration::zero()) {
    BATON_ASSIGN_OR_RETURN(load.requests, RequestsOf(load, question.slo));
  }
  for (int32_t run = 0; run < load.runs; ++run) {
    BATON_ASSIGN_OR_RETURN(const bench::PlanOptions plan, simulator::PlanOf(load, run));
    BATON_ASSIGN_OR_RETURN(simulator::Workload work, simulator::PlannedWorkload(plan));
    question.runs.push_back(std::move(work));
  }
  const std::vector<simulator::SimRequest>& requests = question.runs.front().requests;
  if (requests.empty()) {
    return absl::InvalidArgumentError("the load has no requests; expected a longer --duration");
  }
  question.facts = FactsOf(requests, load.concurrency.value_or(0), load.trace_block_tokens,
                           load.shared_prefix_tokens);
  question.first_seed = static_cast<uint64_t>(load.seed);
  // A cluster that begins empty is too good for a while.
  question.warmup = load.warmup;
  if (load.warmup == base::Duration::zero() && load.rate) {
    question.warmup = (requests.back().at - requests.front().at) / 5;
  }
  // When the requests of a closed loop come is known once it is simulated.
  if (!load.concurrency && requests.back().at < question.warmup) return simulator::NobodyCounted();
  question.arrivals_end = simulator::ArrivalsEndOf(load);
  question.max_devices = flags.max_devices;
  question.roles = flags.roles;
  question.max_model_len = load.max_model_len;
  question.block_tokens = load.trace_block_tokens;
  question.shared_prefix_tokens = load.shared_prefix_tokens;
  question.forced_lengths = load.forced_lengths;
  question.message = base::Duration(static_cast<int64_t>(1e6 * load.message_ms));
  return question;
}

std::vector<std::string> BenchLoad(const PlanFlags& flags, const Question& question) {
  const simulator::SimFlags& load = flags.load;
  std::vector<std::string> words;
  const auto add = [&](const std::string& name, const std::string& value) {
    words.push_back(absl::StrCat("--", name));
    words.push_back(value);
  };
  if (load.rate) add("rate", absl::StrCat(*load.rate));
  if (load.rate && load.burstiness != 1) {
    add("arrivals", "gamma");
    add("burstiness", absl::StrCat(load.burstiness));
  }
  if (load.concurrency) add("concurrency", absl::StrCat(*load.concurrency));
  if (!load.trace.empty()) {
    add("trace", load.trace);
    if (load.time_scale != 1) add("time-scale", absl::StrCat(load.time_scale));
    if (load.trace_block_tokens != bench::PlanOptions().block_tokens) {
      add("trace-block-tokens", absl::StrCat(load.trace_block_tokens));
    }
  } else {
    add("input-tokens", load.input_tokens);
    add("output-tokens", load.output_tokens);
  }
  if (load.shared_prefix_tokens > 0) {
    add("shared-prefix-tokens", absl::StrCat(load.shared_prefix_tokens));
  }
  if (question.runs.front().may_run_out) {
    add("duration", FormatDuration(load.duration));
    if (load.warmup > base::Duration::zero()) add("warmup", FormatDuration(load.warmup));
  } else {
    add("requests", absl::StrCat(question.runs.front().requests.size()));
  }
  // Random prompts hardly get answers that end by themselves, so lengths are forced.
  add("eos", "mask");
  add("slo", flags.slo);
  add("runs", absl::StrCat(load.runs));
  add("seed", absl::StrCat(load.seed));
  return words;
}

}  // namespace baton::planner
