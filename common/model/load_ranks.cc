#include "common/model/load_ranks.h"

#include <algorithm>
#include <deque>
#include <functional>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_format.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/model/load_memory.h"
#include "common/model/quantize/fp8_reader.h"
#include "common/model/tensor_specs.h"
#include "common/model/warm_up.h"

namespace baton {
namespace {

// Makes one progress out of that of all ranks, which load side by side.
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

// Adds the time that it exists to a duration.
class Timed final {
 public:
  Timed(const base::Clock& clock, base::Duration* sum)
      : clock_(clock), begin_(clock.Now()), sum_(sum) {}
  ~Timed() { *sum_ += clock_.Now() - begin_; }
  Timed(const Timed&) = delete;
  Timed& operator=(const Timed&) = delete;

 private:
  const base::Clock& clock_;
  const base::Instant begin_;
  base::Duration* const sum_;
};

// The load of one rank. Its methods are the stages, in their order.
class RankLoad final {
 public:
  RankLoad(const RankSource& source, int32_t index, kernels::Collective* collective)
      : source_(source), index_(index), collective_(collective) {}

  // Makes the backend and packs the weights.
  absl::Status Load(const LoadProgress& progress);
  // Makes the transformer, for which devices choose their kernels.
  absl::Status Prepare();
  // Runs the largest step, so that a device has taken what it needs; then blocks() says how many KV
  // blocks fit.
  absl::Status WarmUp();
  int32_t blocks() const { return blocks_; }
  double CacheMiB(int32_t blocks) const {
    return static_cast<double>(layout_.block_bytes()) * blocks / (1 << 20);
  }
  absl::Status AllocateCache(int32_t blocks);
  absl::Status AllocateSwapSpace();
  // Runs the steps that a device captures.
  absl::Status RunSmallSteps();

  kernels::Collective* collective() const { return collective_; }
  LoadedRank Take() {
    const auto& swap = loaded_.rank.swap_arena;
    loaded_.runner =
        std::make_unique<TransformerRunner>(std::move(transformer_), loaded_.rank.arena->kv(),
                                            swap != nullptr ? swap->kv() : kernels::PagedKv());
    return std::move(loaded_);
  }

 private:
  // Checks one rank on a device of its own. Ranks on the host are checked together.
  absl::Status CheckDevice() const;
  absl::StatusOr<ModelWeights> ReadWeights(const LoadProgress& progress);
  bool on_device() const { return kernels::HasOwnMemory(source_.options.device); }

  const RankSource& source_;
  const int32_t index_;
  kernels::Collective* const collective_;
  LoadedRank loaded_;
  LocalShape shape_;
  kernels::KvLayout layout_;
  std::optional<ModelWeights> weights_;  // until Prepare
  std::unique_ptr<Transformer> transformer_;
  int32_t blocks_ = 0;
};

absl::Status RankLoad::CheckDevice() const {
  BATON_ASSIGN_OR_RETURN(const auto memory, loaded_.rank.backend->DeviceMemory());
  if (!memory.has_value()) return absl::OkStatus();
  const bool stays_fp8 =
      loaded_.rank.backend->info().fp8_multiple > 0 && MayStayFp8(source_.config, source_.dtype);
  MemoryNeed need =
      MemoryNeed::Of(source_.config, shape_, 1, source_.dtype,
                     stays_fp8 ? kernels::Quantization::kFp8 : source_.options.quantization,
                     source_.options.limits);
  need.weights += WiderScaleBytes(source_.config, shape_);
  need.activations += WideningBytes(source_.config, shape_, source_.dtype) +
                      BackendBytes(source_.config, source_.options.limits);
  const DeviceKvNeed kv = {.block_bytes = static_cast<double>(layout_.block_bytes()),
                           .cache_blocks = source_.kv_takes_rest ? 0 : source_.num_blocks,
                           .step_blocks = LargestStepBlocks(source_.options.limits, layout_)};
  return CheckDeviceMemory(need, kv, *memory, source_.options.kv.device_share);
}

absl::StatusOr<ModelWeights> RankLoad::ReadWeights(const LoadProgress& progress) {
  kernels::Backend& backend = *loaded_.rank.backend;
  if (source_.options.load_cache.empty()) {
    return LoadWeights(source_.config, shape_, source_.files, backend, progress);
  }
  LoadCachePlace cache = {.dir = source_.options.load_cache};
  BATON_ASSIGN_OR_RETURN(
      cache.key, LoadCacheKey::Of(source_.files, source_.fingerprint, source_.dtype, shape_.rank,
                                  source_.options.tensor_parallel_size));
  return LoadWeights(source_.config, shape_, source_.files, backend, progress, &cache);
}

absl::Status RankLoad::Load(const LoadProgress& progress) {
  const Timed timed(source_.clock, &loaded_.times.weights);
  const ModelOptions& options = source_.options;
  BATON_ASSIGN_OR_RETURN(shape_,
                         LocalShape::Of(source_.config, index_, options.tensor_parallel_size));
  layout_ = KvLayoutOf(source_.config, shape_, source_.kv_dtype, options.block_size);
  BATON_RETURN_IF_ERROR(CheckQuantizedOnce(source_.config, options.quantization));
  BATON_ASSIGN_OR_RETURN(loaded_.rank.backend,
                         kernels::MakeBackend({.device = options.device,
                                               .isa = options.isa,
                                               .compute_dtype = source_.dtype,
                                               .quantization = options.quantization,
                                               .threads = options.threads,
                                               .collective = collective_,
                                               .device_index = index_}));
  BATON_RETURN_IF_ERROR(CheckDevice());
  BATON_ASSIGN_OR_RETURN(weights_, ReadWeights(progress));
  if (options.probe.has_value()) {
    BATON_ASSIGN_OR_RETURN(weights_->probe, PackProbe(*options.probe, *loaded_.rank.backend));
  }
  if (source_.kv_dtype == kernels::DType::kFp8) {
    BATON_ASSIGN_OR_RETURN(const auto scales, ReadKvScales(source_.config, source_.files));
    for (size_t layer = 0; layer < scales.size(); ++layer) {
      weights_->layers[layer].kv_scales = scales[layer];
    }
  }
  loaded_.weight_bytes = weights_->bytes();
  loaded_.mapped_bytes = weights_->mapped_bytes();
  return absl::OkStatus();
}

absl::Status RankLoad::Prepare() {
  const Timed timed(source_.clock, &loaded_.times.kernels);
  BATON_ASSIGN_OR_RETURN(transformer_,
                         Transformer::Create(source_.config, shape_, *std::move(weights_),
                                             loaded_.rank.backend.get(), source_.options.limits));
  return absl::OkStatus();
}

absl::Status RankLoad::WarmUp() {
  const Timed timed(source_.clock, &loaded_.times.kernels);
  if (on_device()) BATON_RETURN_IF_ERROR(RunLargestStep(*transformer_, layout_));
  blocks_ = source_.num_blocks;
  if (!source_.kv_takes_rest) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(const auto memory, loaded_.rank.backend->DeviceMemory());
  KvBudget budget;
  BATON_ASSIGN_OR_RETURN(budget.memory_bytes,
                         DeviceKvBytes(*memory, source_.options.kv.device_share));
  BATON_ASSIGN_OR_RETURN(blocks_, BlocksFor(budget, layout_));
  return absl::OkStatus();
}

absl::Status RankLoad::AllocateCache(int32_t blocks) {
  const Timed timed(source_.clock, &loaded_.times.kv_cache);
  BATON_ASSIGN_OR_RETURN(KvArena arena, KvArena::Create(*loaded_.rank.backend, layout_, blocks));
  loaded_.rank.arena = std::make_unique<KvArena>(std::move(arena));
  return absl::OkStatus();
}

absl::Status RankLoad::AllocateSwapSpace() {
  const Timed timed(source_.clock, &loaded_.times.kv_cache);
  kernels::Backend& backend = *loaded_.rank.backend;
  BATON_ASSIGN_OR_RETURN(KvArena arena,
                         KvArena::CreateOnHost(backend, layout_, source_.swap_blocks));
  loaded_.rank.swap_arena = std::make_unique<KvArena>(std::move(arena));
  BATON_ASSIGN_OR_RETURN(loaded_.swap_times,
                         MeasureSwaps(backend, loaded_.rank.arena->kv(),
                                      loaded_.rank.swap_arena->kv(), source_.clock));
  return absl::OkStatus();
}

absl::Status RankLoad::RunSmallSteps() {
  if (!on_device()) return absl::OkStatus();
  const Timed timed(source_.clock, &loaded_.times.kernels);
  return RunDecodeSteps(*transformer_, loaded_.rank.arena->kv(),
                        LongestContext(source_.options.max_model_len, source_.config));
}

// Runs one stage for every rank, each on a thread, and returns the first error in the order of the
// ranks when all are through it. A rank that fails ends the group, so that no other waits for it.
absl::Status OnEveryRank(std::deque<RankLoad>& ranks,
                         const std::function<absl::Status(RankLoad&, int32_t)>& stage) {
  std::vector<absl::Status> done(ranks.size());
  const auto run = [&](size_t rank) {
    done[rank] = stage(ranks[rank], static_cast<int32_t>(rank));
    kernels::Collective* const collective = ranks[rank].collective();
    if (!done[rank].ok() && collective != nullptr) collective->Abort(done[rank]);
  };
  std::vector<std::thread> threads;
  for (size_t rank = 1; rank < ranks.size(); ++rank) threads.emplace_back(run, rank);
  run(0);
  for (std::thread& thread : threads) thread.join();
  for (const absl::Status& status : done) BATON_RETURN_IF_ERROR(status);
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<LoadedRank>> LoadRanks(
    const RankSource& source, std::span<const std::unique_ptr<kernels::Collective>> group,
    const LoadProgress& progress, const LoadPhases& phases) {
  const int32_t count = source.options.tensor_parallel_size;
  RanksProgress shared(progress, count);
  std::deque<RankLoad> ranks;
  for (int32_t rank = 0; rank < count; ++rank) {
    ranks.emplace_back(source, rank, group.empty() ? nullptr : group[rank].get());
  }
  phases("loading weights");
  BATON_RETURN_IF_ERROR(OnEveryRank(
      ranks, [&](RankLoad& load, int32_t rank) { return load.Load(shared.OfRank(rank)); }));
  phases("choosing kernels");
  BATON_RETURN_IF_ERROR(OnEveryRank(ranks, [](RankLoad& load, int32_t) { return load.Prepare(); }));
  BATON_RETURN_IF_ERROR(OnEveryRank(ranks, [](RankLoad& load, int32_t) { return load.WarmUp(); }));
  int32_t blocks = ranks[0].blocks();
  for (const RankLoad& load : ranks) blocks = std::min(blocks, load.blocks());
  phases(absl::StrFormat("filling the KV cache of %.0f MiB", ranks[0].CacheMiB(blocks) * count));
  BATON_RETURN_IF_ERROR(
      OnEveryRank(ranks, [blocks](RankLoad& load, int32_t) { return load.AllocateCache(blocks); }));
  if (source.swap_blocks > 0) {
    phases(absl::StrFormat("filling the swap space of %.0f MiB",
                           ranks[0].CacheMiB(source.swap_blocks) * count));
    BATON_RETURN_IF_ERROR(
        OnEveryRank(ranks, [](RankLoad& load, int32_t) { return load.AllocateSwapSpace(); }));
  }
  phases("running the first steps");
  BATON_RETURN_IF_ERROR(
      OnEveryRank(ranks, [](RankLoad& load, int32_t) { return load.RunSmallSteps(); }));
  std::vector<LoadedRank> loaded;
  for (RankLoad& load : ranks) loaded.push_back(load.Take());
  return loaded;
}

}  // namespace baton
