#include "absl/strings/str_cat.h"
#include "common/base/kv_shape.h"
#include "common/base/max_proposals.h"
#include "common/base/status.h"
#include "common/config/bind.h"
#include "common/config/flag_types.h"

namespace baton {
namespace {

constexpr int64_t kMaxMemory = int64_t{1} << 50;

void BindBatching(FlagSet* set, EngineFlags* flags) {
  const std::string group = "Batching";
  set->Add(Common(With(IntFlag("max-model-len", &flags->max_model_len, {.min = 0}), group,
                       "tokens of prompt and output together; 0 = the model's own limit")));
  set->Add(Common(With(IntFlag("max-num-seqs", &flags->max_num_seqs, {.min = 1, .max = 65536}),
                       group, "sequences in one step")));
  set->Add(With(IntFlag("max-prefill-tokens", &flags->max_prefill_tokens, {.min = 1}), group,
                "prompt tokens in one step; longer prompts are chunked"));
  set->Add(
      Common(With(IntFlag("max-num-batched-tokens", &flags->max_num_batched_tokens, {.min = 1}),
                  group, "tokens in one step; decode rows beyond it wait their turn")));
  set->Add(With(DurationFlag("prefill-batch-wait-ms", &flags->prefill_batch_wait,
                             std::chrono::milliseconds(1)),
                group, "how long a prefill batch may wait to fill"));
  set->Add(
      With(ChoiceFlag("policy", &flags->policy), group,
           "who starts, who is let in and who yields, by what is known of the ends of answers; "
           "prefill workers know nothing of them, so every policy is fcfs there"));
  set->Add(With(ChoiceFlag("async-scheduling", &flags->async_scheduling), group,
                "plan the next step while one computes; auto: on a GPU"));
  set->Add(
      With(IntFlag("max-num-queued-reqs", &flags->max_num_queued_reqs, {.min = 1}), group,
           "requests that may stand in a worker's line, beside --policy-line; routers that keep to "
           "their share of places never fill it"));
  set->AddCheck([flags] {
    if (flags->max_model_len != 1) return absl::OkStatus();
    return UsageError("--max-model-len is 1",
                      "a prompt has a token at least, and no answer would have room behind it",
                      "2 or more, or 0 for the model's own limit");
  });
}

void BindCache(FlagSet* set, EngineFlags* flags) {
  const std::string group = "KV cache";
  Flag tokens =
      OptionalInt64Flag("kv-cache-tokens", &flags->kv_cache_tokens, {.min = 1, .max = kMaxMemory});
  tokens.aliases = {"max-batched-token-mem"};
  tokens.exclusive_with = "kv-cache-memory";
  set->Add(With(std::move(tokens), group,
                "size of the KV cache in tokens, instead of --kv-cache-memory"));
  set->Add(Common(With(
      OptionalSizeFlag("kv-cache-memory", &flags->kv_cache_memory, {.min = 1, .max = kMaxMemory}),
      group, "size of the KV cache in bytes, taken at start; on a CPU 512MiB if not given")));
  set->Add(
      With(DoubleFlag("gpu-memory-utilization", &flags->gpu_memory_utilization,
                      {.min = 0.05, .max = 1.0}),
           group,
           "share of a GPU's memory that this worker may fill with weights, activations and KV "
           "cache, where no size of the cache is given; serve divides it among a GPU's workers"));
  set->Add(With(IntFlag("block-size", &flags->block_size, {.min = 1, .max = 1024}), group,
                "tokens in a block"));
  set->Add(
      With(SwitchFlag("enable-prefix-caching", &flags->enable_prefix_caching), group,
           "reuse KV blocks of equal prompt prefixes; --no-enable-prefix-caching turns it off"));
  set->AddCheck([flags] {
    const EngineFlags defaults;
    if (flags->device != DeviceFlag::kCpu ||
        flags->gpu_memory_utilization == defaults.gpu_memory_utilization) {
      return absl::OkStatus();
    }
    return UsageError("--gpu-memory-utilization with --device cpu",
                      "it is a share of a GPU's memory", "--kv-cache-memory SIZE");
  });
}

void BindDevice(FlagSet* set, EngineFlags* flags) {
  const std::string group = "Device";
  set->Add(Common(With(ChoiceFlag("device", &flags->device), group,
                       "where the model runs; cuda needs a build that has it")));
  set->Add(
      Common(With(ChoiceFlag("dtype", &flags->dtype), group,
                  "type of the computation; auto: float32 for fp32 checkpoints, else bfloat16; "
                  "float16 on cuda only")));
  set->Add(
      With(ChoiceFlag("kv-dtype", &flags->kv_dtype), group,
           "type of the KV cache; auto: that of the computation; fp8: e4m3; int8: with a scale for "
           "each token and head, on a CPU only"));
  set->Add(With(ChoiceFlag("isa", &flags->isa), group,
                "instruction set; auto: the fastest this machine has; amx and avx512_bf16 in "
                "bfloat16 only"));
  set->Add(Common(
      With(IntFlag("threads", &flags->threads, {.min = 0, .max = 1024}), group,
           "threads that compute; 0 = one for each physical core that this process may use")));
  set->Add(Common(With(IntFlag("tensor-parallel-size", &flags->tensor_parallel_size,
                               {.min = 1, .max = kMaxTensorParallel}),
                       group,
                       "ranks among which a worker divides heads, MLP and output projection; on a "
                       "CPU they share --threads, on GPUs each has one")));
  set->Add(Common(With(ChoiceFlag("quantization", &flags->quantization), group,
                       "how the layers' projections are kept; fp8 on a Hopper GPU only")));
  set->Add(Common(
      With(Valued(TextFlag("load-cache", &flags->load_cache), "DIR"), group,
           "where to keep the checkpoint as it is packed: later loads read that, and on a CPU "
           "all workers of a user share its memory; off: nowhere, which is the default "
           "but for baton serve on a CPU (see docs/cpu.md)")));
}

void BindSpeculation(FlagSet* set, EngineFlags* flags) {
  const char* const group = "Speculation";
  set->Add(
      With(ChoiceFlag("speculative", &flags->speculative), group,
           "verify several tokens of an answer in one step where they were foretold; ngram: by "
           "what followed the last ones where they stood before, in prompt or answer; draft: by "
           "--draft-model; auto: draft where that is given, else none. Tokens stay the same; "
           "prefill workers draw one token of an answer and foretell nothing"));
  set->Add(With(IntFlag("num-speculative-tokens", &flags->num_speculative_tokens,
                        {.min = 1, .max = kMaxProposals}),
                group, "tokens foretold for one answer at once, fewer where they prove wrong"));
  set->Add(With(IntFlag("speculative-disable-by-batch-size",
                        &flags->speculative_disable_by_batch_size, {.min = 2, .max = 65536}),
                group,
                "answers in a step from which on nothing is foretold; with fewer, they and what is "
                "foretold for them are together at most this many tokens"));
  set->Add(With(SwitchFlag("jump-forward", &flags->jump_forward), group,
                "compute the tokens that a guide leaves no choice of in one step; tokens stay the "
                "same; --no-jump-forward turns it off"));
}

void BindEnds(FlagSet* set, EngineFlags* flags) {
  const char* const group = "Ends";
  set->Add(
      With(ChoiceFlag("runaway", &flags->runaway), group,
           "answers that repeat themselves with no end in sight: let them, tell of them in log "
           "and metrics, or end them; the same for all workers"));
  set->Add(With(InputFlag("probe", &flags->probe), group,
                "directions whose products with the hidden state of every drawn token requests "
                "may ask for; baton eos make-probe writes one"));
}

}  // namespace

void BindEngine(FlagSet* set, EngineFlags* flags) {
  BindBatching(set, flags);
  BindCache(set, flags);
  BindDevice(set, flags);
  BindSpeculation(set, flags);
  BindEnds(set, flags);
  BindPolicySettings(set, "Batching", &flags->policy_settings,
                     [flags] { return std::vector<std::string>{WordOf(flags->policy)}; });
}

void BindWorker(FlagSet* set, WorkerFlags* flags) {
  BindModelDir(set, &flags->model_dir);
  BindServedModelName(set, &flags->served_model_name, &flags->model_dir, "Model",
                      "the name in metrics; default: last part of DIR, without .gguf");
  BindEngine(set, &flags->engine);
  BindPrediction(set, &flags->prediction);
  BindHandoff(set, &flags->handoff);
  BindServer(set, &flags->server);
  BindConnectionAge(set, &flags->server);
}

WorkerFlags DefaultPrefillFlags() {
  WorkerFlags flags;
  flags.server.port = 50052;
  flags.server.admin_port = 8081;
  return flags;
}

WorkerFlags DefaultDecodeFlags() {
  WorkerFlags flags;
  flags.server.port = 50053;
  flags.server.admin_port = 8082;
  return flags;
}

}  // namespace baton
