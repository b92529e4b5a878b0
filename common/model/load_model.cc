#include "common/model/load_model.h"

#include <string_view>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/kv_shape.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/formats/safetensors.h"
#include "common/model/activations.h"
#include "common/model/fingerprint.h"
#include "common/model/host_limits.h"
#include "common/model/tensor_parallel_runner.h"
#include "common/model/tensor_specs.h"
#include "common/model/transformer_runner.h"
#include "common/model/warm_up.h"

namespace baton {

using kernels::DType;

absl::StatusOr<DType> ResolveComputeDType(const std::string& dtype, const ModelConfig& config,
                                          const CheckpointFiles& files) {
  if (dtype == "float32") return DType::kF32;
  if (dtype == "bfloat16") return DType::kBF16;
  if (dtype == "float16") return DType::kF16;
  if (dtype != "auto") {
    return absl::InvalidArgumentError(
        absl::StrCat("--dtype ", dtype, "; expected auto, float32, bfloat16 or float16"));
  }
  if (!config.dtype.empty()) return config.dtype == "float32" ? DType::kF32 : DType::kBF16;
  const StoredTensor* embedding = files.Find("model.embed_tokens.weight");
  const bool fp32 = embedding != nullptr && embedding->dtype == "F32";
  return fp32 ? DType::kF32 : DType::kBF16;
}

absl::StatusOr<DType> ResolveKvDType(const std::string& dtype, DType compute) {
  if (dtype == "auto") return compute;
  if (dtype == "float32") return DType::kF32;
  if (dtype == "bfloat16") return DType::kBF16;
  if (dtype == "float16" && compute == DType::kF16) return DType::kF16;
  return absl::InvalidArgumentError(
      absl::StrCat("--kv-dtype ", dtype, "; expected auto, float32 or bfloat16",
                   dtype == "float16" ? ", or float16 with --dtype float16" : ""));
}

namespace {

// How long a rank waits for another one inside a step: as long as the engine's watchdog would.
constexpr base::Duration kRankPatience = std::chrono::seconds(30);

// Of all ranks: what they divide once, what each has whole as often as there are ranks.
double CountParameters(const ModelConfig& config, const LocalShape& shape, int32_t ranks) {
  const double hidden = config.hidden;
  const double ends = hidden * config.vocab * (config.tied_embeddings ? 1 : 2);
  const double copied_heads = double{1} * shape.kv_heads * ranks - config.kv_heads;
  const double copied_kv = 2 * hidden * config.head_dim * copied_heads * config.layers;
  return static_cast<double>(CountParameters(config)) + (ranks - 1) * ends + copied_kv;
}

// Refuses before the long part of a load, instead of dying in it. `shape` is of one rank; of
// `ranks`, `available` is what all of them share.
absl::Status CheckMemory(const ModelConfig& config, const LocalShape& shape, DType dtype,
                         double kv_bytes, const StepLimits& limits, int32_t ranks, double available,
                         std::string_view owner) {
  const double weights = CountParameters(config, shape, ranks) * SizeOf(dtype);
  const double activations =
      ranks * static_cast<double>(PlanActivations(config, shape, dtype, limits).total());
  const double need = weights + kv_bytes + activations;
  if (need <= available) return absl::OkStatus();
  const auto megabytes = [](double bytes) { return absl::StrFormat("%.0f MB", bytes / 1e6); };
  return absl::ResourceExhaustedError(absl::StrCat(
      "the model needs ", megabytes(need), " (weights ", megabytes(weights), ", KV cache ",
      megabytes(kv_bytes), ", activations ", megabytes(activations), "), the ", std::string(owner),
      " has ", megabytes(available), " available; lower --kv-cache-memory or --kv-cache-tokens, ",
      "--max-num-batched-tokens or --max-num-seqs"));
}

class Stopwatch final {
 public:
  explicit Stopwatch(const base::Clock& clock) : clock_(clock), last_(clock.Now()) {}
  // Since the last lap.
  base::Duration Lap() {
    const base::Instant before = std::exchange(last_, clock_.Now());
    return last_ - before;
  }

 private:
  const base::Clock& clock_;
  base::Instant last_;
};

// One progress out of that of all ranks, which load side by side.
class RanksProgress final {
 public:
  RanksProgress(const LoadProgress& progress, int32_t ranks)
      : progress_(progress), done_(static_cast<size_t>(ranks)) {}

  LoadProgress OfRank(int32_t rank) {
    if (!progress_) return nullptr;
    return [this, rank](int64_t done, int64_t total) {
      base::MutexLock lock(&mutex_);
      sum_ += done - std::exchange(done_[static_cast<size_t>(rank)], done);
      progress_(sum_ / static_cast<int64_t>(done_.size()), total);
    };
  }

 private:
  const LoadProgress& progress_;
  base::Mutex mutex_;
  std::vector<int64_t> done_ ABSL_GUARDED_BY(mutex_);
  int64_t sum_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What all ranks are loaded from.
struct RankSource {
  const ModelConfig& config;
  const CheckpointFiles& files;
  const ModelOptions& options;
  const base::Clock& clock;
  DType dtype = DType::kF32;
  DType kv_dtype = DType::kF32;
  int32_t num_blocks = 0;
  // The cache of a device with its own memory gets what is left when everything else is there.
  bool kv_takes_rest = false;
};

struct LoadedRank {
  ModelRank rank;
  std::unique_ptr<TransformerRunner> runner;
  size_t weight_bytes = 0;
  LoadTimes times;
};

// CheckMemory of one rank on a device of its own; those on the host are checked together.
absl::Status CheckDevice(const RankSource& source, const LocalShape& shape,
                         const kernels::KvLayout& layout, const kernels::Backend& backend) {
  BATON_ASSIGN_OR_RETURN(const auto memory, backend.DeviceMemory());
  if (!memory.has_value()) return absl::OkStatus();
  const double blocks = source.kv_takes_rest ? 1 : source.num_blocks;
  return CheckMemory(source.config, shape, source.dtype,
                     blocks * static_cast<double>(layout.block_bytes()), source.options.limits, 1,
                     static_cast<double>(memory->free_bytes), "GPU");
}

// Called when everything else of the rank has its memory.
absl::StatusOr<int32_t> BlocksOfRank(const RankSource& source, const kernels::KvLayout& layout,
                                     const kernels::Backend& backend) {
  if (!source.kv_takes_rest) return source.num_blocks;
  BATON_ASSIGN_OR_RETURN(const auto memory, backend.DeviceMemory());
  KvBudget budget;
  BATON_ASSIGN_OR_RETURN(budget.memory_bytes,
                         DeviceKvBytes(*memory, source.options.kv.device_share));
  return BlocksFor(budget, layout);
}

absl::StatusOr<LoadedRank> LoadRank(const RankSource& source, int32_t index,
                                    kernels::Collective* collective, const LoadProgress& progress) {
  const ModelOptions& options = source.options;
  Stopwatch watch(source.clock);
  LoadedRank loaded;
  BATON_ASSIGN_OR_RETURN(const LocalShape shape,
                         LocalShape::Of(source.config, index, options.tensor_parallel_size));
  BATON_ASSIGN_OR_RETURN(loaded.rank.backend, kernels::MakeBackend({.device = options.device,
                                                                    .isa = options.isa,
                                                                    .compute_dtype = source.dtype,
                                                                    .threads = options.threads,
                                                                    .collective = collective}));
  kernels::Backend& backend = *loaded.rank.backend;
  const kernels::KvLayout layout =
      KvLayoutOf(source.config, shape, source.kv_dtype, options.block_size);
  BATON_RETURN_IF_ERROR(CheckDevice(source, shape, layout, backend));
  BATON_ASSIGN_OR_RETURN(ModelWeights weights,
                         LoadWeights(source.config, shape, source.files, backend, progress));
  loaded.weight_bytes = weights.bytes();
  loaded.times.weights = watch.Lap();
  BATON_ASSIGN_OR_RETURN(
      auto transformer,
      Transformer::Create(source.config, shape, std::move(weights), &backend, options.limits));
  const bool device = kernels::HasOwnMemory(options.device);
  if (device) BATON_RETURN_IF_ERROR(RunLargestStep(*transformer, layout));
  loaded.times.kernels = watch.Lap();
  BATON_ASSIGN_OR_RETURN(const int32_t num_blocks, BlocksOfRank(source, layout, backend));
  BATON_ASSIGN_OR_RETURN(KvArena arena, KvArena::Create(backend, layout, num_blocks));
  loaded.rank.arena = std::make_unique<KvArena>(std::move(arena));
  loaded.times.kv_cache = watch.Lap();
  if (device) BATON_RETURN_IF_ERROR(RunDecodeSteps(*transformer, loaded.rank.arena->kv()));
  loaded.runner =
      std::make_unique<TransformerRunner>(std::move(transformer), loaded.rank.arena->kv());
  loaded.times.kernels += watch.Lap();
  return loaded;
}

// Each on a thread of its own; rank 0 on the caller's.
std::vector<absl::StatusOr<LoadedRank>> LoadRanks(
    const RankSource& source, const std::vector<std::unique_ptr<kernels::Collective>>& group,
    const LoadProgress& progress) {
  const int32_t ranks = source.options.tensor_parallel_size;
  RanksProgress shared(progress, ranks);
  std::vector<absl::StatusOr<LoadedRank>> loaded(static_cast<size_t>(ranks));
  const auto load = [&](int32_t rank) {
    kernels::Collective* const collective = group.empty() ? nullptr : group[rank].get();
    loaded[rank] = LoadRank(source, rank, collective, shared.OfRank(rank));
  };
  std::vector<std::thread> threads;
  for (int32_t rank = 1; rank < ranks; ++rank) threads.emplace_back(load, rank);
  load(0);
  for (std::thread& thread : threads) thread.join();
  return loaded;
}

// Backends and arenas to the model, and one runner out of all.
void Assemble(std::vector<absl::StatusOr<LoadedRank>> ranks, LoadedModel* model) {
  model->transformer = &ranks[0]->runner->transformer();
  model->times.weights = ranks[0]->times.weights;
  model->times.kv_cache = ranks[0]->times.kv_cache;
  model->times.kernels = ranks[0]->times.kernels;
  for (const auto& rank : ranks) model->weight_bytes += rank->weight_bytes;
  model->backend = std::move(ranks[0]->rank.backend);
  model->arena = std::move(ranks[0]->rank.arena);
  if (ranks.size() == 1) {
    model->runner = std::move(ranks[0]->runner);
    return;
  }
  std::vector<TensorParallelRunner::Rank> runners;
  for (size_t rank = 0; rank < ranks.size(); ++rank) {
    runners.push_back({std::move(ranks[rank]->runner), model->group[rank].get()});
    if (rank > 0) model->peers.push_back(std::move(ranks[rank]->rank));
  }
  model->runner = std::make_unique<TensorParallelRunner>(std::move(runners));
}

absl::Status CheckOptions(const ModelOptions& options) {
  if (options.block_size < 1 || options.block_size > 1024) {
    return absl::InvalidArgumentError(
        absl::StrCat("--block-size ", options.block_size, "; expected 1 to 1024 tokens"));
  }
  if (options.tensor_parallel_size < 1 || options.tensor_parallel_size > kMaxTensorParallel) {
    return absl::InvalidArgumentError(absl::StrCat("--tensor-parallel-size ",
                                                   options.tensor_parallel_size, "; expected 1 to ",
                                                   kMaxTensorParallel));
  }
  return absl::OkStatus();
}

}  // namespace

int LoadedModel::threads() const {
  int sum = backend->info().threads;
  for (const ModelRank& peer : peers) sum += peer.backend->info().threads;
  return sum;
}

KvCache LoadedModel::kv_cache() const {
  std::vector<kernels::PagedKv> ranks = {kv()};
  for (const ModelRank& peer : peers) ranks.push_back(peer.arena->kv());
  return KvCache(std::move(ranks));
}

absl::StatusOr<std::unique_ptr<LoadedModel>> LoadModel(const std::string& model_dir,
                                                       const ModelOptions& options,
                                                       const LoadProgress& progress,
                                                       const base::Clock& clock) {
  Stopwatch watch(clock);
  BATON_RETURN_IF_ERROR(CheckOptions(options));
  const int32_t ranks = options.tensor_parallel_size;
  auto model = std::make_unique<LoadedModel>();
  BATON_ASSIGN_OR_RETURN(model->config, LoadModelConfig(model_dir));
  BATON_ASSIGN_OR_RETURN(model->generation, LoadGenerationConfig(model_dir));
  BATON_ASSIGN_OR_RETURN(const LocalShape shape, LocalShape::Of(model->config, 0, ranks));
  BATON_ASSIGN_OR_RETURN(const auto files, CheckpointFiles::Open(model_dir));
  BATON_RETURN_IF_ERROR(CheckTensors(model->config, *files));

  RankSource source{.config = model->config, .files = *files, .options = options, .clock = clock};
  BATON_ASSIGN_OR_RETURN(source.dtype, ResolveComputeDType(options.dtype, model->config, *files));
  BATON_ASSIGN_OR_RETURN(source.kv_dtype, ResolveKvDType(options.kv_dtype, source.dtype));
  kernels::KvLayout layout = KvLayoutOf(model->config, shape, source.kv_dtype, options.block_size);
  layout.kv_heads *= ranks;  // a block on all of them
  const bool device = kernels::HasOwnMemory(options.device);
  source.kv_takes_rest =
      device && !options.kv.tokens.has_value() && !options.kv.memory_bytes.has_value();
  if (!source.kv_takes_rest) {
    BATON_ASSIGN_OR_RETURN(source.num_blocks, BlocksFor(options.kv, layout));
  }
  const double kv_bytes = static_cast<double>(layout.block_bytes()) * source.num_blocks;
  if (!device) {
    BATON_RETURN_IF_ERROR(CheckMemory(model->config, shape, source.dtype, kv_bytes, options.limits,
                                      ranks, static_cast<double>(AvailableMemoryBytes()),
                                      "machine"));
  }
  if (ranks > 1) model->group = kernels::MakeHostGroup(ranks, kRankPatience);
  model->times.checkpoint = watch.Lap();

  auto loaded = LoadRanks(source, model->group, progress);
  for (const auto& rank : loaded) BATON_RETURN_IF_ERROR(rank.status());
  Assemble(std::move(loaded), model.get());
  watch.Lap();
  // After the weights: it samples every tensor, and by now their pages are in memory.
  BATON_ASSIGN_OR_RETURN(model->fingerprint, ModelFingerprint(model_dir, *files, source.dtype));
  model->times.checkpoint += watch.Lap();
  return model;
}

}  // namespace baton
