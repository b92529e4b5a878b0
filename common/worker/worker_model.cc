#include "common/worker/worker_model.h"

#include <algorithm>
#include <cstdlib>
#include <optional>
#include <utility>

#include "common/base/status.h"
#include "common/formats/eos_probe_file.h"
#include "common/metrics/metric.h"
#include "common/model/footprint.h"
#include "common/text/eos_set.h"
#include "common/text/text_fingerprint.h"
#include "common/text/token_boundaries.h"
#include "common/text/tokenizer.h"
#include "common/worker/worker_options.h"
#include "kernels/backend_factory.h"
#include "kernels/machine_limits.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

constexpr int32_t kTypicalPrompt = 512;

absl::Status CheckModelLength(const EngineFlags& flags, const ModelConfig& config) {
  if (flags.max_model_len <= config.max_positions) return absl::OkStatus();
  return absl::OutOfRangeError("--max-model-len is " + std::to_string(flags.max_model_len) +
                               " and the model knows positions up to " +
                               std::to_string(config.max_positions) +
                               "; give at most that, or leave the flag out");
}

void LogModel(const WorkerModel& model, const WorkerFlags& worker) {
  const EngineFlags& flags = worker.engine;
  const kernels::PagedKv& kv = model.loaded->kv();
  const int threads = model.loaded->threads();
  const char* spin = std::getenv("GOMP_SPINCOUNT");
  spdlog::info("model {}: weights {} MiB packed, numerics {}, {} threads, GOMP_SPINCOUNT {}",
               model.loaded->fingerprint, model.loaded->weight_bytes >> 20, model.numerics, threads,
               spin == nullptr ? "unset" : spin);
  const std::string_view integers = kernels::IntegerKernel(model.loaded->backend->info());
  if (model.loaded->has_integers() && !integers.empty()) {
    spdlog::info("products by integer weights use the {} kernel", integers);
  }
  if (threads < flags.threads) {
    spdlog::warn("--threads is {} and OpenMP gives {}: raise OMP_THREAD_LIMIT or ask for fewer",
                 flags.threads, threads);
  }
  const size_t rank_bytes = static_cast<size_t>(kv.num_blocks) * kv.layout.block_bytes();
  spdlog::info(
      "KV cache: {} blocks of {} tokens in {}, {} MiB, max_model_len {}; async scheduling {}, "
      "speculation {}",
      kv.num_blocks, kv.layout.block_size, std::string(kernels::Name(kv.layout.dtype)),
      (rank_bytes * static_cast<size_t>(model.loaded->ranks())) >> 20, model.engine.max_model_len,
      model.engine.overlap ? "on" : "off", SpeculationOf(worker));
  if (model.eos_set.empty()) {
    spdlog::warn("{}", kNoEosToken);
  }
  for (const EosSetEntry& entry : model.eos_set) {
    std::string sources;
    for (const std::string& source : entry.sources) {
      sources += (sources.empty() ? "" : ", ") + source;
    }
    spdlog::info("EOS id {} '{}' from {}", entry.id, entry.text, sources);
  }
}

// Null where the directory has no tokenizer.
absl::StatusOr<std::unique_ptr<Tokenizer>> TokenizerOf(const std::string& model_dir) {
  auto tokenizer = LoadTokenizer(model_dir);
  if (!absl::IsNotFound(tokenizer.status())) return tokenizer;
  spdlog::warn("{} has no tokenizer.json: its EOS token is unknown here", model_dir);
  return nullptr;
}

void ReadTokens(const Tokenizer& tokenizer, WorkerModel* model) {
  const std::vector<TokenId>& eos_ids = model->engine.eos_ids;
  for (TokenId id = 0; id < std::min(tokenizer.vocab_size(), model->engine.vocab_size); ++id) {
    if (!tokenizer.IsSpecial(id) || std::ranges::find(eos_ids, id) != eos_ids.end()) continue;
    model->special_tokens.emplace(id, tokenizer.TokenText(id));
    model->engine.special_ids.push_back(id);
  }
  model->engine.token_boundaries = TokenBoundaries(tokenizer);
}

// What a worker knows of its model without the weights.
absl::StatusOr<WorkerModel> ReadText(const WorkerFlags& worker) {
  WorkerModel model;
  BATON_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(worker.model_dir));
  BATON_RETURN_IF_ERROR(CheckModelLength(worker.engine, config));
  BATON_ASSIGN_OR_RETURN(const GenerationConfig generation, LoadGenerationConfig(worker.model_dir));
  BATON_ASSIGN_OR_RETURN(std::unique_ptr<Tokenizer> tokenizer, TokenizerOf(worker.model_dir));
  BATON_ASSIGN_OR_RETURN(model.eos_set,
                         LoadEosSet(worker.model_dir, config, generation, tokenizer.get()));
  BATON_ASSIGN_OR_RETURN(model.text_fingerprint,
                         TextFingerprint(worker.model_dir, config.vocab, model.eos_set));
  model.engine = EngineOptionsOf(worker, config, model.eos_set);
  if (!worker.draft.model.empty()) {
    BATON_RETURN_IF_ERROR(CheckDraft(worker.draft.model, worker.model_dir, model.engine,
                                     kernels::ParseKvDType(WordOf(worker.engine.kv_dtype)),
                                     model.eos_set));
  }
  if (tokenizer != nullptr) ReadTokens(*tokenizer, &model);
  model.tokenizer = std::move(tokenizer);
  return model;
}

absl::StatusOr<std::optional<EosProbeFile>> ReadProbe(const std::string& path) {
  if (path.empty()) return std::optional<EosProbeFile>();
  BATON_ASSIGN_OR_RETURN(EosProbeFile file, LoadEosProbeFile(path));
  return std::optional<EosProbeFile>(std::move(file));
}

// After the model, so that what that takes of the memory is taken.
absl::Status AddDraft(const WorkerFlags& worker, const base::Clock& clock,
                      LoadProgressLog* progress, WorkerModel* model) {
  if (worker.draft.model.empty()) return absl::OkStatus();
  const kernels::PagedKv& kv = model->loaded->kv();
  const int64_t as_many = int64_t{kv.num_blocks} * kv.layout.block_size;
  BATON_ASSIGN_OR_RETURN(
      model->draft,
      LoadDraft(worker.draft.model, ModelOptionsOf(worker, std::nullopt),
                worker.draft.kv_cache_tokens.value_or(as_many), model->engine, clock, progress));
  model->engine.proposals_from = model->draft->proposer.get();
  return absl::OkStatus();
}

// Random directions record as well on another model, trained ones mean nothing there.
absl::Status CheckProbe(const EosProbeFile& file, const std::string& path,
                        const std::string& fingerprint) {
  const absl::Status made_for = CheckMadeFor(file, path, fingerprint);
  if (!made_for.ok()) {
    if (file.kind == EosProbeKind::kLinear) return made_for;
    spdlog::warn("{}", std::string(made_for.message()));
  }
  const EosProbe& probe = file.probe;
  spdlog::info("probe {}: {} directions on {}", path, probe.dims,
               probe.layer.has_value() ? "layer " + std::to_string(*probe.layer)
                                       : std::string("the normed last state"));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<WorkModel> WorkModelOf(const LoadedModel& model,
                                      const absl::StatusOr<kernels::MachineLimits>& measured) {
  kernels::MachineLimits limits;
  if (measured.ok()) {
    limits = *measured;
  } else if (ReasonOf(measured.status()) == Reason::kDeviceFault) {
    return measured.status();
  } else {
    spdlog::warn("what the machine can do could not be measured: {}; {} and {} stay 0",
                 std::string(measured.status().message()),
                 InfoOf(Metric::kModelFlopsUtilization).name,
                 InfoOf(Metric::kMemoryBandwidthUtilization).name);
  }
  FootprintQuery query;
  query.tokens = kTypicalPrompt;
  query.compute_dtype = model.backend->info().compute_dtype;
  query.kv_dtype = model.kv().layout.dtype;
  query.block_size = model.kv().layout.block_size;
  const Footprint footprint = ComputeFootprint(model.config, query);
  // A rank has a device of its own, or shares the host.
  const bool devices = kernels::HasOwnMemory(model.backend->info().device);
  const double machines = devices ? model.ranks() : 1;
  return WorkModel{
      .prefill_flops_per_token =
          ExecutedPrefillFlops(model.config, kTypicalPrompt) / kTypicalPrompt,
      .decode_flops_per_token = footprint.decode_step_flops,
      .weight_bytes = static_cast<double>(model.weight_bytes),
      .block_bytes = static_cast<double>(model.kv().layout.block_bytes()) * model.ranks(),
      .peak_flops_per_s = machines * limits.flops_per_s,
      .peak_read_bytes_per_s = machines * limits.read_bytes_per_s};
}

namespace {

// Until steps have shown what a token takes, it is what it would at best.
void AddSwapSpace(WorkerModel* model) {
  model->engine.swap_blocks = model->loaded->swap_blocks();
  if (model->engine.swap_blocks == 0) return;
  const SwapTimes& times = model->loaded->swap_times;
  const WorkModel& work = model->work;
  model->engine.swap_costs = {.out_s = times.out_s, .in_s = times.in_s};
  if (work.peak_flops_per_s > 0) {
    model->engine.swap_costs.token_s = work.prefill_flops_per_token / work.peak_flops_per_s;
  }
  const double mib = work.block_bytes / (1 << 20);
  spdlog::info(
      "swap space: {} blocks, {:.0f} MiB; a block goes out at {:.0f} MiB/s and in at "
      "{:.0f} MiB/s",
      model->engine.swap_blocks, mib * model->engine.swap_blocks, mib / times.out_s,
      mib / times.in_s);
}

}  // namespace

absl::StatusOr<WorkerModel> LoadWorkerModel(const WorkerFlags& worker, const base::Clock& clock,
                                            const EosProbe* predictors_probe,
                                            LoadProgressLog* progress) {
  progress->Begin("reading the tokenizer");
  BATON_ASSIGN_OR_RETURN(WorkerModel model, ReadText(worker));
  const std::string& probe_path = worker.engine.probe;
  BATON_ASSIGN_OR_RETURN(const auto probe, ReadProbe(probe_path));
  std::optional<EosProbe> computed;
  if (probe.has_value()) {
    computed = probe->probe;
  } else if (predictors_probe != nullptr) {
    BATON_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(worker.model_dir));
    // What is wrong with one that does not fit is told when the fingerprint is known.
    if (CheckProbeFits(*predictors_probe, config).ok()) computed = *predictors_probe;
  }
  if (computed) model.probe_digest = EosProbeDigest(*computed);
  ModelOptions options = ModelOptionsOf(worker, std::move(computed));
  options.swap_bytes = worker.swap.space;
  BATON_ASSIGN_OR_RETURN(
      model.loaded, LoadModel(
                        worker.model_dir, options,
                        [progress](int64_t done, int64_t total) { progress->Note(done, total); },
                        clock, [progress](const std::string& phase) { progress->Begin(phase); }));
  if (probe.has_value()) {
    BATON_RETURN_IF_ERROR(CheckProbe(*probe, probe_path, model.loaded->fingerprint));
  }
  BATON_RETURN_IF_ERROR(AddDraft(worker, clock, progress, &model));
  progress->Begin("measuring what the machine can do");
  BATON_ASSIGN_OR_RETURN(
      model.work, WorkModelOf(*model.loaded, kernels::MeasureLimits(*model.loaded->backend,
                                                                    model.loaded->threads(),
                                                                    model.loaded->has_integers())));
  progress->End();
  AddSwapSpace(&model);
  model.compute_dtype = std::string(kernels::Name(model.loaded->backend->info().compute_dtype));
  model.numerics = model.loaded->numerics();
  LogModel(model, worker);
  return model;
}

}  // namespace baton
