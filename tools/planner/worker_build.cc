#include "tools/planner/worker_build.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/model/footprint.h"
#include "common/model/kv_arena.h"
#include "common/model/load_memory.h"
#include "common/model/quantize/fp8_reader.h"
#include "kernels/gpu_needs.h"

namespace baton::planner {
namespace {

constexpr double kMicro = 1e6;  // in a second

// Operations by what they are done for.
struct Operations {
  double row = 0;           // of a token that draws the next: projections and output
  double prompt_token = 0;  // of any other
  double product = 0;       // of a query with a key, and of its value, in all layers
};

Operations OperationsOf(const ModelUse& model) {
  const ModelConfig& config = model.config;
  Operations operations;
  operations.product = 4.0 * config.q_size() * config.layers;
  // Of the token after one other, which attends to two.
  operations.row = ComputeFootprint(config, {.tokens = 1, .compute_dtype = model.compute_dtype})
                       .decode_step_flops -
                   2 * operations.product;
  operations.prompt_token = operations.row - 2.0 * config.hidden * config.vocab;
  return operations;
}

// How the model's projections of floats or of e4m3 are multiplied: the latter stay as they are on a
// GPU that has products of them.
kernels::Quantization ProductsOf(const ModelUse& model, const Hardware& hardware) {
  const bool stays = MayStayFp8(model.config, model.compute_dtype) && hardware.device == "cuda" &&
                     hardware.flops.contains("fp8");
  return stays ? kernels::Quantization::kFp8 : model.quantization;
}

absl::StatusOr<double> FlopsOf(const ModelUse& model, const Hardware& hardware) {
  const bool fp8 = ProductsOf(model, hardware) == kernels::Quantization::kFp8;
  const std::string type(fp8 ? "fp8" : kernels::Name(model.compute_dtype));
  const auto found = hardware.flops.find(type);
  if (found != hardware.flops.end()) return found->second * hardware.flops_share;
  return absl::InvalidArgumentError(
      absl::StrCat(hardware.name, " has no flops.", type, "; expected the rate at which it ",
                   "computes what the model is computed in, or another --dtype"));
}

// What a rank reads in every step: all but the rows of an embedding table that is a tensor of its
// own.
double BytesStreamed(const ModelUse& model, const LocalShape& shape, double weights) {
  const bool table_apart = !model.config.tied_embeddings || shape.divides_output(model.config);
  const double table =
      static_cast<double>(SizeOf(model.compute_dtype)) * model.config.hidden * model.config.vocab;
  return table_apart ? weights - table : weights;
}

absl::Status CheckFits(const WorkerBuild& build, const Hardware& hardware) {
  const double usable = hardware.memory_bytes * hardware.memory_share;
  if (build.kv_bytes_most > 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(absl::StrFormat(
      "workers of %d %s of %.1f GB: weights of %.1f GB, activations of %.1f GB and libraries of "
      "%.1f GB leave nothing of the %.1f GB of each that may be filled",
      build.ranks, build.ranks == 1 ? "device" : "devices", hardware.memory_bytes / 1e9,
      build.weight_bytes / 1e9, build.activation_bytes / 1e9, build.library_bytes / 1e9,
      usable / 1e9));
}

void AddSums(const ModelUse& model, const Hardware::Link& link, int32_t ranks,
             simulator::StepCost* cost) {
  const double sums = 2.0 * model.config.layers;
  // Of the residual stream, which is fp32 whatever the model is computed in.
  const double bytes = sums * model.config.hidden * sizeof(float) * 2 * (ranks - 1) / ranks;
  const double token = kMicro * bytes / link.bytes_per_s;
  cost->step += sums * link.latency_us;
  cost->row += token;
  cost->prompt_token += token;
}

}  // namespace

absl::StatusOr<WorkerBuild> ReckonWorker(const ModelUse& model, const Hardware& hardware,
                                         int32_t ranks) {
  BATON_ASSIGN_OR_RETURN(const LocalShape shape, LocalShape::Of(model.config, 0, ranks));
  if (ranks > hardware.devices || (ranks > 1 && !hardware.link)) {
    return absl::FailedPreconditionError(absl::StrCat(
        ranks, " ranks: ", hardware.name,
        ranks > hardware.devices ? absl::StrCat(" has ", hardware.devices, " devices in a machine")
                                 : " has no link between devices"));
  }
  BATON_ASSIGN_OR_RETURN(const double flops, FlopsOf(model, hardware));
  const StepLimits limits = {.max_tokens = std::max(model.max_num_batched_tokens, kMostSequences),
                             .max_samples = kMostSequences};
  MemoryNeed need = MemoryNeed::Of(model.config, shape, 1, model.compute_dtype,
                                   ProductsOf(model, hardware), limits);
  if (hardware.device == "cuda") {
    need.weights += WiderScaleBytes(model.config, shape);
    need.activations += WideningBytes(model.config, shape, model.compute_dtype) +
                        BackendBytes(model.config, limits);
  }
  const kernels::KvLayout layout =
      KvLayoutOf(model.config, shape, model.kv_dtype, model.block_size);
  const auto kv_token = static_cast<double>(layout.bytes_per_token());
  WorkerBuild build{.ranks = ranks, .devices = ranks, .cost = {}};
  build.weight_bytes = need.weights;
  build.activation_bytes = need.activations;
  build.kept_free_bytes = hardware.memory_bytes * (1 - hardware.memory_share);
  if (hardware.device == "cuda") build.library_bytes = kernels::kGpuLibraryBytes;
  build.kv_bytes_most = ranks * (hardware.memory_bytes * hardware.memory_share - need.weights -
                                 need.activations - build.library_bytes);
  build.kv_bytes_per_token = kv_token * ranks;
  build.handoff_bytes_per_token =
      static_cast<double>(ComputeFootprint(model.config, {.compute_dtype = model.compute_dtype,
                                                          .kv_dtype = model.kv_dtype})
                              .kv_bytes_per_token);
  BATON_RETURN_IF_ERROR(CheckFits(build, hardware));
  const Operations operations = OperationsOf(model);
  const double bandwidth = hardware.memory_bandwidth * hardware.bandwidth_share;
  simulator::StepCost& cost = build.cost;
  cost.step = hardware.step_us + kMicro * BytesStreamed(model, shape, need.weights) / bandwidth;
  cost.row = kMicro * operations.row / ranks / flops;
  cost.prompt_token = kMicro * operations.prompt_token / ranks / flops;
  cost.kv_token = kMicro * kv_token / bandwidth;
  cost.product = kMicro * operations.product / ranks / flops;
  if (ranks > 1) AddSums(model, *hardware.link, ranks, &cost);
  return build;
}

}  // namespace baton::planner
