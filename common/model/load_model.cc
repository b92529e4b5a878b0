#include "common/model/load_model.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"
#include "common/formats/safetensors.h"
#include "common/model/fingerprint.h"
#include "common/model/host_limits.h"
#include "common/model/load_memory.h"
#include "common/model/swap_space.h"
#include "common/model/tensor_parallel_runner.h"
#include "common/model/tensor_specs.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

class Stopwatch final {
 public:
  explicit Stopwatch(const base::Clock& clock) : clock_(clock), last_(clock.Now()) {}
  // The time since the last lap.
  base::Duration Lap() {
    const base::Instant before = std::exchange(last_, clock_.Now());
    return last_ - before;
  }

 private:
  const base::Clock& clock_;
  base::Instant last_;
};

// Moves backends and arenas into the model, and makes one runner out of those of all ranks.
void Assemble(std::vector<LoadedRank> ranks, LoadedModel* model) {
  model->transformer = &ranks[0].runner->transformer();
  model->times.weights = ranks[0].times.weights;
  model->times.kv_cache = ranks[0].times.kv_cache;
  model->times.kernels = ranks[0].times.kernels;
  for (const auto& rank : ranks) {
    model->weight_bytes += rank.weight_bytes;
    model->mapped_bytes += rank.mapped_bytes;
    // They copy side by side, and the slowest is waited for.
    model->swap_times = {.out_s = std::max(model->swap_times.out_s, rank.swap_times.out_s),
                         .in_s = std::max(model->swap_times.in_s, rank.swap_times.in_s)};
  }
  model->backend = std::move(ranks[0].rank.backend);
  model->arena = std::move(ranks[0].rank.arena);
  model->swap_arena = std::move(ranks[0].rank.swap_arena);
  if (ranks.size() == 1) {
    model->runner = std::move(ranks[0].runner);
    return;
  }
  std::vector<TensorParallelRunner::Rank> runners;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    runners.push_back({std::move(ranks[rank].runner), model->group[rank].get()});
    if (rank > 0) model->peers.push_back(std::move(ranks[rank].rank));
  }
  model->runner = std::make_unique<TensorParallelRunner>(std::move(runners));
}

// Says what is served otherwise than the checkpoint describes it.
void LogRemarks(const QuantizationConfig& quantization, kernels::DType kv_dtype) {
  for (const std::string& remark : quantization.Remarks()) {
    spdlog::info("a checkpoint of {}: {}", quantization.name(), remark);
  }
  if (quantization.kv_scales && kv_dtype != kernels::DType::kFp8) {
    spdlog::info("the KV cache is {}: the checkpoint's scales of keys and values are not used",
                 kernels::Name(kv_dtype));
  }
}

// Says how many blocks the KV cache and the swap space get, and checks that the machine has the
// memory for them and the weights. `shape` is that of one rank.
absl::Status SizeCaches(const LocalShape& shape, RankSource* source) {
  const ModelOptions& options = source->options;
  const int32_t ranks = options.tensor_parallel_size;
  kernels::KvLayout layout =
      KvLayoutOf(source->config, shape, source->kv_dtype, options.block_size);
  layout.kv_heads *= ranks;  // a block on all of them
  const bool device = kernels::HasOwnMemory(options.device);
  source->kv_takes_rest =
      device && !options.kv.tokens.has_value() && !options.kv.memory_bytes.has_value();
  if (!source->kv_takes_rest) {
    BATON_ASSIGN_OR_RETURN(source->num_blocks, BlocksFor(options.kv, layout));
  }
  BATON_ASSIGN_OR_RETURN(source->swap_blocks, SwapBlocksFor(options.swap_bytes, layout));
  const double kv_bytes = static_cast<double>(layout.block_bytes()) * source->num_blocks;
  const double swap_bytes = static_cast<double>(layout.block_bytes()) * source->swap_blocks;
  if (device) {
    BATON_RETURN_IF_ERROR(CheckSwapSpace(swap_bytes, source->swap_blocks));
  } else {
    MemoryNeed need = MemoryNeed::Of(source->config, shape, ranks, source->dtype,
                                     options.quantization, options.limits);
    need.swap_space = swap_bytes;
    BATON_RETURN_IF_ERROR(
        CheckMemory(need, kv_bytes, static_cast<double>(AvailableMemoryBytes()), "machine"));
  }
  return absl::OkStatus();
}

}  // namespace

int LoadedModel::threads() const {
  int sum = backend->info().threads;
  for (const ModelRank& peer : peers) sum += peer.backend->info().threads;
  return sum;
}

bool LoadedModel::has_integers() const {
  return config.quantization.has_value() && !config.quantization->fp8();
}

std::string LoadedModel::numerics() const {
  const kernels::BackendInfo& info = backend->info();
  const std::string numerics =
      info.numerics() + "/kv-" + std::string(kernels::Name(kv().layout.dtype));
  if (!config.quantization.has_value()) return numerics;
  const bool rounds_inputs = info.rounds_inputs && has_integers();
  return numerics + (rounds_inputs ? "/int8-inputs/" : "/") + config.quantization->name();
}

KvCache LoadedModel::kv_cache() const {
  std::vector<kernels::PagedKv> ranks = {kv()};
  for (const ModelRank& peer : peers) ranks.push_back(peer.arena->kv());
  return KvCache(std::move(ranks));
}

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadModel(const std::string& model_dir,
                                                       const ModelOptions& options,
                                                       const LoadProgress& progress,
                                                       const base::Clock& clock,
                                                       const LoadPhases& phases) {
  const auto begin = [&phases](const std::string& phase) {
    if (phases) phases(phase);
  };
  Stopwatch watch(clock);
  begin("checking the checkpoint");
  BATON_RETURN_IF_ERROR(options.Check());
  const int32_t ranks = options.tensor_parallel_size;
  auto model = std::make_unique<LoadedModel>();
  BATON_ASSIGN_OR_RETURN(model->config, LoadModelConfig(model_dir));
  if (options.probe.has_value()) {
    BATON_RETURN_IF_ERROR(CheckProbeFits(*options.probe, model->config));
  }
  BATON_ASSIGN_OR_RETURN(model->generation, LoadGenerationConfig(model_dir));
  BATON_ASSIGN_OR_RETURN(const LocalShape shape, LocalShape::Of(model->config, 0, ranks));
  BATON_ASSIGN_OR_RETURN(const auto files, CheckpointFiles::Open(model_dir));
  BATON_RETURN_IF_ERROR(CheckTensors(model->config, *files));
  BATON_RETURN_IF_ERROR(CheckTiedOutput(model->config, *files));

  RankSource source{.config = model->config, .files = *files, .options = options, .clock = clock};
  source.dtype = ResolveComputeDType(options.dtype, model->config, *files);
  BATON_ASSIGN_OR_RETURN(source.kv_dtype, ResolveKvDType(options.kv_dtype, source.dtype,
                                                         model->config, options.device));
  if (model->config.quantization.has_value()) {
    LogRemarks(*model->config.quantization, source.kv_dtype);
  }
  if (!options.load_cache.empty()) {
    BATON_RETURN_IF_ERROR(MakeCacheDir(options.load_cache));
    BATON_ASSIGN_OR_RETURN(source.fingerprint, ModelFingerprint(model_dir, *files, source.dtype));
  }
  BATON_RETURN_IF_ERROR(SizeCaches(shape, &source));
  if (ranks > 1) {
    BATON_ASSIGN_OR_RETURN(
        model->group,
        kernels::MakeGroup(
            {.device = options.device, .ranks = ranks, .nccl_library = options.nccl_library}));
  }
  model->times.checkpoint = watch.Lap();

  BATON_ASSIGN_OR_RETURN(std::vector<LoadedRank> loaded,
                         LoadRanks(source, model->group, progress, begin));
  Assemble(std::move(loaded), model.get());
  watch.Lap();
  begin("taking the checkpoint's fingerprint");
  // The fingerprint samples every tensor. It comes after the weights, when their pages are in
  // memory.
  BATON_ASSIGN_OR_RETURN(model->fingerprint, ModelFingerprint(model_dir, *files, source.dtype));
  model->times.checkpoint += watch.Lap();
  return model;
}

}  // namespace baton
