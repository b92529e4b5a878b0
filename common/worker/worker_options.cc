#include "common/worker/worker_options.h"

#include <string>
#include <utility>

#include "common/base/check.h"
#include "common/config/options.h"
#include "common/sched/policies/named.h"
#include "kernels/dtype.h"

namespace baton {
namespace {

// The value of --load-cache that stands for none, where one would be the default.
constexpr char kNoLoadCache[] = "off";

ProposalLimits ProposalsOf(const WorkerFlags& worker) {
  const EngineFlags& flags = worker.engine;
  if (SpeculationOf(worker) == WordOf(SpeculativeFlag::kNone)) return {};
  return {.most = flags.num_speculative_tokens, .batch = flags.speculative_disable_by_batch_size};
}

RunawayAction ActionOf(RunawayFlag flag) {
  switch (flag) {
    case RunawayFlag::kOff:
      return RunawayAction::kOff;
    case RunawayFlag::kWarn:
      return RunawayAction::kWarn;
    case RunawayFlag::kEnd:
      return RunawayAction::kEnd;
  }
  return RunawayAction::kOff;
}

Policy PolicyOf(const EngineFlags& flags) {
  const std::optional<Policy> named = PolicyNamed(WordOf(flags.policy));
  BATON_CHECK(named.has_value()) << WordOf(flags.policy);
  Policy policy = *named;
  policy.settings = flags.policy_settings;
  return policy;
}

}  // namespace

WorkerFlags FlagsOfRole(WorkerFlags flags, WorkerRole role) {
  if (role != WorkerRole::kPrefill) return flags;
  flags.engine.policy = PolicyFlag::kFcfs;
  flags.engine.speculative = SpeculativeFlag::kNone;
  return flags;
}

std::string SpeculationOf(const WorkerFlags& worker) {
  if (!worker.draft.model.empty()) return WordOf(SpeculativeFlag::kDraft);
  const bool looks_up = worker.engine.speculative == SpeculativeFlag::kNgram;
  return WordOf(looks_up ? SpeculativeFlag::kNgram : SpeculativeFlag::kNone);
}

ModelOptions ModelOptionsOf(const WorkerFlags& worker, std::optional<EosProbe> probe) {
  const EngineFlags& flags = worker.engine;
  ModelOptions options;
  options.dtype = kernels::ParseDType(WordOf(flags.dtype));
  options.kv_dtype = kernels::ParseKvDType(WordOf(flags.kv_dtype));
  if (flags.device == DeviceFlag::kCuda) options.device = kernels::Device::kCuda;
  options.isa = WordOf(flags.isa);
  options.threads = flags.threads;
  options.tensor_parallel_size = flags.tensor_parallel_size;
  options.nccl_library = worker.handoff.nccl_library;
  if (flags.quantization == QuantizationFlag::kFp8) {
    options.quantization = kernels::Quantization::kFp8;
  }
  if (flags.load_cache != kNoLoadCache) options.load_cache = flags.load_cache;
  options.max_model_len = flags.max_model_len;
  options.block_size = flags.block_size;
  if (flags.kv_cache_tokens) {
    options.kv.tokens = *flags.kv_cache_tokens;
  } else {
    options.kv.memory_bytes = flags.kv_cache_memory;
    options.kv.device_share = flags.gpu_memory_utilization;
  }
  options.probe = std::move(probe);
  options.limits = {
      .max_tokens = flags.max_num_batched_tokens,
      .max_samples = MaxDraws(flags.max_num_seqs, ProposalsOf(worker), flags.jump_forward),
      .max_sequences = flags.max_num_seqs};
  return options;
}

EngineOptions EngineOptionsOf(const WorkerFlags& worker, const ModelConfig& config,
                              const std::vector<EosSetEntry>& eos_set) {
  const EngineFlags& flags = worker.engine;
  EngineOptions options;
  options.max_model_len = LongestContext(flags.max_model_len, config);
  options.max_num_seqs = flags.max_num_seqs;
  options.max_prefill_tokens = flags.max_prefill_tokens;
  options.max_num_batched_tokens = flags.max_num_batched_tokens;
  options.enable_prefix_caching = flags.enable_prefix_caching;
  options.prefill_batch_wait = flags.prefill_batch_wait;
  options.policy = PolicyOf(flags);
  options.max_num_queued_reqs = flags.max_num_queued_reqs;
  options.overlap = SchedulesAsync(flags);
  options.proposals = ProposalsOf(worker);
  options.jump_forward = flags.jump_forward;
  for (const EosSetEntry& entry : eos_set) options.eos_ids.push_back(entry.id);
  options.vocab_size = config.vocab;
  options.runaway = ActionOf(flags.runaway);
  return options;
}

}  // namespace baton
