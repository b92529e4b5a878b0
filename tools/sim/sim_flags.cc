#include "tools/sim/sim_flags.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"
#include "common/eos/predict/predictor_file.h"
#include "common/sched/policies/named.h"
#include "common/text/token_boundaries.h"
#include "common/text/tokenizer.h"
#include "tools/bench/plan/plan_builder.h"
#include "tools/sim/baselines.h"

namespace baton::simulator {
namespace {

constexpr double kLongestHandoff = 3600;  // seconds

// The planner knows one beginning only.
void BindPrefixes(FlagSet* set, SimFlags* flags) {
  const std::string group = "Load";
  set->Add(With(IntFlag("shared-prefixes", &flags->shared_prefixes, {.min = 1, .max = 1'000'000}),
                group, "how many such beginnings there are; every prompt has one of them"));
  set->Add(With(DoubleFlag("shared-prefix-skew", &flags->shared_prefix_skew, {.min = 0, .max = 10}),
                group, "the k-th of them comes in proportion to k to the minus this: 0 = alike"));
}

void BindCluster(FlagSet* set, SimFlags* flags) {
  const std::string group = "Cluster";
  set->Add(Common(With(IntFlag("decode", &flags->workers, {.min = 1, .max = 10'000}), group,
                       "decode workers")));
  set->Add(Common(With(IntFlag("prefill", &flags->prefill_workers, {.min = 0, .max = 10'000}),
                       group, "prefill workers; 0: decode workers compute prompts")));
  set->Add(With(SwitchFlag("elastic", &flags->elastic), group,
                "workers change their role while they serve; both counts are what they begin as"));
  set->Add(With(IntFlag("routers", &flags->routers, {.min = 1, .max = 64}), group,
                "routers, which requests go to in turn"));
  set->Add(Common(With(Valued(CommaListFlag("routing", &flags->routings), "NAME,…"), group,
                       "how routers choose workers, to compare: load, prefix, remaining, score; "
                       "beside these random, two, hash, which are not served")));
  set->Add(With(
      IntOrWordFlag("local-prefill-below", &flags->local_prefill_below, {.min = 0}, "auto"), group,
      "prompts with fewer uncached tokens are computed by their decode worker; auto: by estimated "
      "cost"));
  const Choices<HandoffTiming> timings = {{"place", HandoffTiming::kPlace},
                                          {"expected", HandoffTiming::kExpected},
                                          {"at-once", HandoffTiming::kAtOnce}};
  set->Add(With(ChoiceFlag("handoff-timing", &flags->handoff_timing, timings), group,
                "prompts are computed when a decode worker gives them a place, as served; when one "
                "is expected for the moment that their KV arrives; or at once, which is a bound"));
  set->Add(With(IntFlag("max-num-queued-reqs", &flags->max_num_queued_reqs, {.min = 1}), group,
                "requests that may wait at a router; more are refused"));
  set->Add(With(DoubleFlag("message-ms", &flags->message_ms, {.min = 0, .max = 1e4}), group,
                "time of a message between two processes, one way"));
  set->Add(With(Valued(SizeFlag("handoff-bandwidth", &flags->handoff_bandwidth,
                                {.min = 1, .max = int64_t{1} << 50}),
                       "SIZE/s"),
                group, "bytes per second that a prefill worker sends"));
  set->Add(With(SizeFlag("kv-bytes-per-token", &flags->kv_bytes_per_token,
                         {.min = 0, .max = int64_t{1} << 40}),
                group, "as model inspect says"));
}

void BindWorkers(FlagSet* set, SimFlags* flags) {
  const std::string group = "Simulated workers";
  Flag cost = Valued(TextFlag("step-cost", &flags->cost), "FILE");
  cost.required = true;
  set->Add(
      Common(With(std::move(cost), group, "the file of step times that baton sim fit writes")));
  set->Add(With(IntFlag("max-model-len", &flags->max_model_len, {.min = 2}), group,
                "tokens of prompt and output together"));
  set->Add(Common(With(IntFlag("max-num-seqs", &flags->max_num_seqs, {.min = 1, .max = 65536}),
                       group, "sequences in one step")));
  set->Add(With(IntFlag("max-prefill-tokens", &flags->max_prefill_tokens, {.min = 1}), group,
                "prompt tokens in one step; longer prompts are chunked"));
  set->Add(With(IntFlag("max-num-batched-tokens", &flags->max_num_batched_tokens, {.min = 1}),
                group, "tokens in one step; decode rows beyond it wait their turn"));
  set->Add(Common(With(IntFlag("kv-cache-tokens", &flags->kv_cache_tokens, {.min = 1}), group,
                       "size of the KV cache in tokens")));
  set->Add(With(IntFlag("block-size", &flags->block_size, {.min = 1, .max = 1024}), group,
                "tokens in a block"));
  set->Add(With(IntFlag("swap-space-tokens", &flags->swap_space_tokens, {.min = 0}), group,
                "size of the decode workers' swap space in tokens; 0 = none"));
  set->Add(With(Valued(SizeFlag("swap-bandwidth", &flags->swap_bandwidth,
                                {.min = 1, .max = int64_t{1} << 50}),
                       "SIZE/s"),
                group, "bytes per second that a step copies to swap space or back"));
  set->Add(
      With(SwitchFlag("enable-prefix-caching", &flags->prefix_caching), group,
           "reuse KV blocks of equal prompt prefixes; --no-enable-prefix-caching turns it off"));
  set->Add(With(SwitchFlag("async-scheduling", &flags->two_steps), group,
                "plan the next step while one computes, as on a GPU"));
  set->Add(Common(With(Valued(CommaListFlag("policy", &flags->policies), "NAME,…"), group,
                       absl::StrCat("policies to compare: ", absl::StrJoin(PolicyNames(), ", "),
                                    "; or, to compare with and not served, ", BaselineForms()))));
  BindPolicySettings(set, group, &flags->policy_settings, [flags] { return flags->policies; });
  set->Add(
      Common(With(Valued(TextFlag("predictor", &flags->predictor), "off|learnt|oracle|FILE"), group,
                  "who foresees ends: nobody; survival learnt while serving; the truth; or a "
                  "predictor file, by the signals of --answers")));
  set->Add(With(Valued(TextFlag("tokenizer", &flags->tokenizer), "DIR"), group,
                "model directory whose tokenizer says which tokens end lines and sentences"));
}

void BindResults(FlagSet* set, SimFlags* flags) {
  const std::string group = "Results";
  set->Add(Common(With(Valued(TextFlag("slo", &flags->slo), "ttft=200ms,tpot=50ms"), group,
                       "limits of ttft, tpot and e2e that goodput counts by")));
  set->Add(Common(With(SwitchFlag("json", &flags->as_json), group, "as one JSON object")));
  Flag plots = Valued(TextFlag("plots", &flags->plots), "DIR");
  plots.exclusive_with = "json";
  set->Add(Common(With(std::move(plots), group,
                       "where to draw pictures, SVG; result.json beside them is what --json "
                       "prints")));
}

// The names of a flag, each of which is a column.
absl::Status CheckNames(const std::string& flag, const std::vector<std::string>& names,
                        const std::string& example) {
  if (names.empty()) {
    return UsageError(absl::StrCat("--", flag, " ''"), "found no name, expected one or more",
                      absl::StrCat("--", flag, " ", example));
  }
  for (auto name = names.begin(); name != names.end(); ++name) {
    if (std::find(names.begin(), name, *name) == name) continue;
    return UsageError(absl::StrCat("--", flag, " names ", *name, " twice"),
                      "both columns would be the same", "each name once");
  }
  return absl::OkStatus();
}

// What would do nothing, and what could only come to a standstill.
absl::Status CheckSettings(const FlagSet& set, const SimFlags& flags) {
  if (set.Given("burstiness") && !flags.rate) {
    return UsageError("--burstiness without --rate",
                      "a closed loop and traces have arrivals of their own", "--rate 5");
  }
  for (const char* name : {"time-scale", "trace-block-tokens"}) {
    if (!set.Given(name) || !flags.trace.empty()) continue;
    return UsageError(absl::StrCat("--", name, " without --trace"), "it is about a trace's rows",
                      "--trace FILE");
  }
  BATON_RETURN_IF_ERROR(CheckNames("policy", flags.policies, "fcfs"));
  BATON_RETURN_IF_ERROR(CheckNames("routing", flags.routings, "load"));
  if (set.Given("shared-prefix-skew") && flags.shared_prefixes == 1) {
    return UsageError("--shared-prefix-skew without --shared-prefixes",
                      "all prompts have the one beginning", "--shared-prefixes 100");
  }
  const double longest_s = static_cast<double>(flags.kv_bytes_per_token) * flags.max_model_len /
                           static_cast<double>(flags.handoff_bandwidth);
  if (flags.prefill_workers > 0 && longest_s > kLongestHandoff) {
    return UsageError(
        absl::StrCat("--handoff-bandwidth ", flags.handoff_bandwidth),
        absl::StrCat("the KV of --max-model-len ", flags.max_model_len, " tokens would take ",
                     longest_s, " s to send, expected at most ", kLongestHandoff),
        "as many bytes per second as the network has");
  }
  return absl::OkStatus();
}

absl::Status Check(const FlagSet& set, const SimFlags& flags) {
  BATON_RETURN_IF_ERROR(CheckSettings(set, flags));
  BATON_RETURN_IF_ERROR(bench::CheckOneLoad(flags.rate.has_value(), flags.concurrency.has_value(),
                                            !flags.trace.empty()));
  const bool lengths = set.Given("input-tokens") || set.Given("output-tokens");
  if (lengths && (!flags.trace.empty() || !flags.eos_logs.empty())) {
    return UsageError("--input-tokens or --output-tokens with a trace or EOS logs",
                      "these have their own lengths", "only one of them");
  }
  if (flags.shared_prefixes > 1 && flags.shared_prefix_tokens == 0) {
    return UsageError("--shared-prefixes without their length", "expected tokens of each",
                      "--shared-prefix-tokens 512");
  }
  if (flags.shared_prefixes > 1 && !flags.trace.empty()) {
    return UsageError("--shared-prefixes with a trace", "a trace says itself what prompts share",
                      "only one of them");
  }
  if (!flags.trace.empty() && !flags.eos_logs.empty()) {
    return UsageError("--trace with --answers", "each has its own lengths", "--rate 10 instead");
  }
  if (flags.predictor_file() && (flags.eos_logs.empty() || flags.forced_lengths)) {
    return UsageError("--predictor with a file and no signals for it to read",
                      "only EOS logs have signals, and --eos mask ends at the length",
                      "--answers FILE, or --predictor learnt");
  }
  if (flags.forced_lengths && set.Given("max-tokens")) {
    return UsageError("--max-tokens with --eos mask", "the limit is then the answer's length",
                      "only one of them");
  }
  if (flags.elastic && flags.prefill_workers == 0) {
    return UsageError("--elastic without prefill workers",
                      "expected workers of both roles to begin with", "--prefill 1");
  }
  if (flags.elastic && flags.handoff_timing != HandoffTiming::kPlace) {
    // Workers that wait for places at each other could fill each other's pools.
    return UsageError("--handoff-timing with --elastic", "each is an experiment of its own",
                      "only one of them");
  }
  if (flags.handoff_timing != HandoffTiming::kPlace && flags.prefill_workers == 0) {
    return UsageError("--handoff-timing without prefill workers", "nothing is handed over then",
                      "--prefill 1, or without it");
  }
  if (flags.kv_cache_tokens < flags.block_size) {
    return UsageError(absl::StrCat("--kv-cache-tokens ", flags.kv_cache_tokens),
                      "expected at least one block", "a greater number");
  }
  return absl::OkStatus();
}

absl::StatusOr<Policy> PolicyFor(const SimFlags& flags, const std::string& name) {
  std::optional<Policy> policy = PolicyNamed(name);
  if (!policy) {
    const auto names = PolicyNames();
    return UsageError(absl::StrCat("unknown policy '", name, "'"),
                      absl::StrCat("expected ", absl::StrJoin(names, ", "), ", ", BaselineForms()),
                      absl::StrCat("--policy ", names.front()));
  }
  policy->settings = flags.policy_settings;
  return *policy;
}

absl::StatusOr<SimRouting> RoutingNamed(const std::string& name) {
  std::vector<std::string> names;
  for (const SimRouting& routing : AllRoutings()) {
    names.push_back(RoutingNameOf(routing));
    if (names.back() == name) return routing;
  }
  return UsageError(absl::StrCat("unknown routing '", name, "'"),
                    absl::StrCat("expected ", absl::StrJoin(names, ", ")),
                    absl::StrCat("--routing ", names.front()));
}

absl::Status SetPredictor(const SimFlags& flags, WorkerSetup* worker) {
  if (!flags.tokenizer.empty()) {
    BATON_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(flags.tokenizer));
    worker->token_boundaries = TokenBoundaries(*tokenizer);
    worker->scheduler.token_boundaries = worker->token_boundaries;
  }
  if (flags.predictor == "off") return absl::OkStatus();
  if (flags.predictor == "learnt" || flags.predictor == "oracle") {
    worker->foreseer = flags.predictor == "learnt" ? Foreseer::kLearnt : Foreseer::kOracle;
    return absl::OkStatus();
  }
  // Read here so that what is wrong with it is told; every worker has its own.
  BATON_ASSIGN_OR_RETURN(const PredictorFile file, ReadPredictorFile(flags.predictor));
  if (file.reads_probe) {
    return UsageError(
        absl::StrCat("--predictor ", flags.predictor),
        "it reads products of a probe with hidden states, and the simulator has none; "
        "expected a file that was trained without a probe",
        "--predictor learnt");
  }
  worker->foreseer = Foreseer::kFile;
  worker->predictor_file = flags.predictor;
  return absl::OkStatus();
}

}  // namespace

void BindSim(FlagSet* set, SimFlags* flags) {
  BindSimLoad(set, flags);
  BindPrefixes(set, flags);
  BindCluster(set, flags);
  BindWorkers(set, flags);
  BindResults(set, flags);
  set->AddCheck([set, flags] { return Check(*set, *flags); });
}

absl::StatusOr<ClusterSetup> SetupOf(const SimFlags& flags, const std::string& policy,
                                     const std::string& routing) {
  ClusterSetup setup;
  BATON_ASSIGN_OR_RETURN(setup.routing, RoutingNamed(routing));
  setup.routers = flags.routers;
  setup.workers = flags.workers;
  setup.prefill_workers = flags.prefill_workers;
  setup.elastic = flags.elastic;
  setup.message = base::Duration(static_cast<int64_t>(1e6 * flags.message_ms));
  setup.handoff_bytes_per_s = static_cast<double>(flags.handoff_bandwidth);
  setup.kv_bytes_per_token = static_cast<double>(flags.kv_bytes_per_token);
  setup.local_prefill_below = flags.local_prefill_below;
  setup.handoff_timing = flags.handoff_timing;
  setup.max_num_queued_reqs = flags.max_num_queued_reqs;
  setup.concurrency = flags.concurrency.value_or(0);
  setup.arrivals_end = ArrivalsEndOf(flags);
  setup.max_tokens = flags.max_tokens;
  setup.class_boundary = flags.class_boundary;
  // One of several prefixes is the block of a hash id.
  const bool several = flags.shared_prefixes > 1;
  setup.shared_prefix_tokens = several ? 0 : flags.shared_prefix_tokens;
  setup.block_tokens = several ? flags.shared_prefix_tokens : flags.trace_block_tokens;
  WorkerSetup& worker = setup.worker;
  BATON_ASSIGN_OR_RETURN(worker.cost, ReadStepCost(flags.cost));
  worker.num_blocks = flags.kv_cache_tokens / flags.block_size;
  worker.swap_blocks = flags.swap_space_tokens / flags.block_size;
  worker.swap_block_s = static_cast<double>(flags.block_size * flags.kv_bytes_per_token) /
                        static_cast<double>(flags.swap_bandwidth);
  worker.prefix_caching = flags.prefix_caching;
  worker.forced_lengths = flags.forced_lengths;
  SchedulerOptions& scheduler = worker.scheduler;
  BATON_ASSIGN_OR_RETURN(worker.baseline, BaselineNamed(policy));
  if (worker.baseline && flags.elastic) {
    // Prefill workers have no baseline, and these are both in one.
    return UsageError(absl::StrCat("--policy ", policy, " with --elastic"),
                      "each is an experiment of its own", "only one of them");
  }
  if (worker.baseline) {
    scheduler.policy = worker.baseline->policy;
  } else {
    BATON_ASSIGN_OR_RETURN(scheduler.policy, PolicyFor(flags, policy));
  }
  scheduler.limits = {.max_model_len = flags.max_model_len,
                      .pool_tokens = worker.num_blocks * flags.block_size,
                      .vocab_size = kVocabulary};
  scheduler.block_size = flags.block_size;
  scheduler.max_num_seqs = flags.max_num_seqs;
  scheduler.max_prefill_tokens = flags.max_prefill_tokens;
  scheduler.max_num_batched_tokens = flags.max_num_batched_tokens;
  scheduler.max_steps_in_flight = flags.two_steps ? 2 : 1;
  scheduler.eos_ids = {kEosToken};
  BATON_RETURN_IF_ERROR(SetPredictor(flags, &worker));
  if (worker.baseline && worker.baseline->reserve != ReserveBy::kForeseen) {
    worker.foreseer = Foreseer::kOff;
  }
  return setup;
}

nlohmann::ordered_json SettingsJson(const FlagSet& set) {
  nlohmann::ordered_json settings;
  for (const Flag& flag : set.flags()) {
    if (flag.get != nullptr && !flag.hidden) settings[flag.name] = absl::StrJoin(flag.get(), ",");
  }
  return settings;
}

}  // namespace baton::simulator
