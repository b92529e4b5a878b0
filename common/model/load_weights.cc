// Chooses where a load takes its weights from: the checkpoint, a load cache of rows, or packed
// weights that processes share.
#include <memory>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/model/packed/shared_weights.h"
#include "common/model/quantize/quantized_parts.h"
#include "common/model/tensor_specs.h"
#include "common/model/weight_loader.h"
#include "common/model/weight_source.h"
#include "common/model/weights.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

absl::StatusOr<ModelWeights> Pack(const WeightJob& job, WeightSource& source) {
  PackingMaker maker(source, job.backend, job.progress);
  BATON_ASSIGN_OR_RETURN(
      ModelWeights weights,
      WeightLoader(job.config, job.shape, job.backend.CanEmbedFromPacked(), maker).Load());
  if (job.progress) job.progress(source.total(), source.total());
  return weights;
}

// With a writer, what is packed is written to a load cache of rows as well.
absl::StatusOr<ModelWeights> PackCheckpoint(const WeightJob& job,
                                            std::unique_ptr<LoadCacheWriter> writer) {
  CheckpointSource source(job.config, job.files, job.backend.info(),
                          PackingOrder(job.config, job.files), std::move(writer));
  BATON_ASSIGN_OR_RETURN(ModelWeights weights, Pack(job, source));
  source.CommitCache();
  return weights;
}

// Returns null, and logs why, where no cache can be written.
std::unique_ptr<LoadCacheWriter> MakeWriter(const ModelConfig& config, const LoadCachePlace& cache,
                                            const CheckpointFiles& files) {
  // A checkpoint of 16 bits doubles when it is converted to fp32.
  auto writer =
      LoadCacheWriter::Create(cache.dir, cache.key, MostItems(config), 2 * files.data_bytes());
  if (writer.ok()) return std::move(writer).value();
  if (absl::IsAborted(writer.status())) {
    spdlog::info("no load cache is written here: {}", std::string(writer.status().message()));
    return nullptr;
  }
  spdlog::warn("no load cache is written: {}", std::string(writer.status().message()));
  return nullptr;
}

absl::StatusOr<ModelWeights> LoadByRows(const WeightJob& job, const LoadCachePlace& cache) {
  auto reader = LoadCacheReader::Open(cache.dir, cache.key);
  absl::Status defect = reader.status();
  if (reader.ok()) {
    CacheSource source(std::move(reader).value(), job.backend.info().compute_dtype);
    auto weights = Pack(job, source);
    if (weights.ok()) {
      spdlog::info("weights read from load cache {}/{}", cache.dir, cache.key.FileName());
    }
    if (source.defect().ok()) return weights;
    defect = source.defect();
  }
  if (!absl::IsNotFound(defect)) {
    spdlog::warn("the load cache is not used, and written anew: {}", std::string(defect.message()));
  }
  return PackCheckpoint(job, MakeWriter(job.config, cache, job.files));
}

}  // namespace

absl::StatusOr<ModelWeights> LoadWeights(const ModelConfig& config, const LocalShape& shape,
                                         const CheckpointFiles& files, kernels::Backend& backend,
                                         const LoadProgress& progress,
                                         const LoadCachePlace* cache) {
  BATON_RETURN_IF_ERROR(CheckTensors(config, files));
  const WeightJob job = {config, shape, files, backend, progress};
  if (cache == nullptr) return PackCheckpoint(job, nullptr);
  if (backend.packed_images() != nullptr) {
    BATON_ASSIGN_OR_RETURN(auto shared, LoadSharedWeights(job, *cache));
    if (shared.has_value()) return *std::move(shared);
    return PackCheckpoint(job, nullptr);
  }
  if (config.quantization.has_value()) {
    spdlog::info("--load-cache does not keep {} weights ({}); they are read from the checkpoint",
                 config.quantization->name(), MethodName(config.quantization->format));
    return PackCheckpoint(job, nullptr);
  }
  return LoadByRows(job, *cache);
}

}  // namespace baton
