// The flags of `baton sim` and `baton planner` that say what load comes.
#include <chrono>
#include <utility>

#include "common/base/status.h"
#include "common/config/flag_types.h"
#include "tools/bench/plan/length_distribution.h"
#include "tools/sim/sim_flags.h"

namespace baton::simulator {
namespace {

constexpr int32_t kDefaultRequests = 1000;

}  // namespace

void BindSimLoad(FlagSet* set, SimFlags* flags) {
  const std::string group = "Load";
  set->Add(Common(With(OptionalDoubleFlag("rate", &flags->rate, {.min = 1e-3, .max = 1e6}), group,
                       "requests per second that come, whatever becomes of them")));
  Flag concurrency = OptionalIntFlag("concurrency", &flags->concurrency, {.min = 1, .max = 65536});
  concurrency.exclusive_with = "rate";
  set->Add(Common(With(std::move(concurrency), group, "so many requests under way at all times")));
  Flag trace = Valued(TextFlag("trace", &flags->trace), "FILE");
  trace.exclusive_with = "rate";
  set->Add(Common(With(std::move(trace), group,
                       "arrivals and lengths of a CSV (Azure) or JSONL (Mooncake) trace")));
  set->Add(With(DoubleFlag("time-scale", &flags->time_scale, {.min = 1e-3, .max = 1e3}), group,
                "factor on the trace's times: 2 = half the rate"));
  set->Add(With(IntFlag("trace-block-tokens", &flags->trace_block_tokens, {.min = 1}), group,
                "tokens that a hash id of the trace stands for"));
  set->Add(Common(With(Valued(CommaListFlag("answers", &flags->eos_logs), "FILE,…"), group,
                       "EOS logs whose answers are given: their lengths and signals, with --rate "
                       "or --concurrency")));
  set->Add(With(DoubleFlag("burstiness", &flags->burstiness, {.min = 1e-2, .max = 1e4}), group,
                "shape of the gaps of --rate: 1 = Poisson, less = bursts"));
  set->Add(Common(With(IntFlag("requests", &flags->requests, {.min = 0, .max = 5'000'000}), group,
                       "how many; 0: 1000, or all of a trace")));
  set->Add(With(DurationFlag("duration", &flags->duration, std::chrono::seconds(1)), group,
                "how long they come, if that ends first"));
  set->Add(With(DurationFlag("warmup", &flags->warmup, std::chrono::seconds(1)), group,
                "who comes before is not counted"));
  set->Add(Common(With(Valued(TextFlag("input-tokens", &flags->input_tokens), "D"), group,
                       "prompt length: N, LO:HI or a named distribution")));
  set->Add(Common(With(Valued(TextFlag("output-tokens", &flags->output_tokens), "D"), group,
                       "length of answers, which the service does not know: likewise")));
  set->Add(With(IntFlag("shared-prefix-tokens", &flags->shared_prefix_tokens, {.min = 0}), group,
                "tokens that prompts begin with, and have in common; fewer than the longest has"));
  const Choices<bool> ends = {{"honor", false}, {"mask", true}};
  set->Add(Common(With(ChoiceFlag("eos", &flags->forced_lengths, ends), group,
                       "answers end by themselves; or are forced to their length, which the "
                       "service then knows")));
  set->Add(With(IntFlag("max-tokens", &flags->max_tokens, {.min = 0}), group,
                "limit that requests give; 0: none, so as many as fit"));
  set->Add(With(IntFlag("class-boundary", &flags->class_boundary, {.min = 0}), group,
                "requests with longer answers are of a class of their own, as those of another "
                "kind of work may be; 0: all are of one class"));
  set->Add(Common(With(IntFlag("runs", &flags->runs, {.min = 1, .max = 100}), group,
                       "repetitions, each with the next seed")));
  set->Add(With(IntFlag("seed", &flags->seed, {.min = 0, .max = INT32_MAX - 100}), group,
                "seed of arrivals, lengths, prompts and routing"));
}

absl::StatusOr<bench::PlanOptions> PlanOf(const SimFlags& flags, int32_t run) {
  bench::PlanOptions plan;
  plan.rate = flags.rate.value_or(0);
  plan.concurrency = flags.concurrency.value_or(0);
  plan.trace = flags.trace;
  plan.burstiness = flags.burstiness;
  plan.time_scale = flags.time_scale;
  plan.block_tokens = flags.trace_block_tokens;
  plan.duration = flags.duration;
  plan.warmup = flags.warmup;
  plan.seed = static_cast<uint64_t>(flags.seed) + static_cast<uint64_t>(run);
  plan.max_model_len = flags.max_model_len;
  plan.shared_prefix_tokens = flags.shared_prefix_tokens;
  plan.requests = flags.requests;
  const bool limited = flags.requests > 0 || flags.duration > base::Duration::zero();
  if (flags.trace.empty() && !limited) plan.requests = kDefaultRequests;
  if (!flags.trace.empty()) return plan;
  BATON_ASSIGN_OR_RETURN(
      plan.input, bench::LengthDistribution::Parse(flags.input_tokens, bench::LengthSide::kInput));
  BATON_ASSIGN_OR_RETURN(plan.output, bench::LengthDistribution::Parse(flags.output_tokens,
                                                                       bench::LengthSide::kOutput));
  return plan;
}

base::Duration ArrivalsEndOf(const SimFlags& flags) {
  if (!flags.concurrency || flags.duration == base::Duration::zero()) return {};
  return flags.warmup + flags.duration;
}

}  // namespace baton::simulator
