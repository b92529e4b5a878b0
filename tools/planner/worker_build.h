#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "common/formats/model_config.h"
#include "kernels/backend_factory.h"
#include "kernels/dtype.h"
#include "tools/planner/hardware.h"
#include "tools/sim/step_cost.h"

namespace baton::planner {

// A model and how workers are to run it.
struct ModelUse {
  ModelConfig config;
  kernels::DType compute_dtype = kernels::DType::kBF16;
  kernels::DType kv_dtype = kernels::DType::kBF16;
  kernels::Quantization quantization = kernels::Quantization::kNone;
  int32_t block_size = 16;
  int32_t max_prefill_tokens = 2048;
  int32_t max_num_batched_tokens = 2048;
};

// One way to make a worker: what it occupies, how long its steps take and what its memory holds.
struct WorkerBuild {
  int32_t ranks = 1;    // --tensor-parallel-size
  int32_t devices = 1;  // that it occupies; on this machine 0, which has no other use for cores
  int32_t threads = 0;  // on this machine; 0: on a device
  // Costs that were measured while so many workers ran side by side hold for that many.
  std::optional<int32_t> only_workers;
  simulator::StepCost cost;
  double cost_error = 0;             // of a fit, on steps that it was not fitted to
  std::optional<double> message_ms;  // of a message between two processes, where it was measured
  // Of one device, or of the worker on this machine; bytes.
  double weight_bytes = 0, activation_bytes = 0, kept_free_bytes = 0;
  double library_bytes = 0;       // of the driver and its libraries; 0 on a CPU
  double kv_bytes_most = 0;       // over all ranks
  double kv_bytes_per_token = 0;  // over all ranks, heads of which ranks hold copies counted again
  double handoff_bytes_per_token = 0;
};

// A worker of `ranks` devices. Its steps take, by the roofline that a sum can say: every step reads
// each rank's projections once, and makes two sums over the ranks per layer; each token computes
// its projections and sends its part of the sums; each token of context is read once per row that
// generates. Reading and computing are added, though devices do some of both at once, so steps of
// middling batches are reckoned up to twice as long as they could be. All layers count as if they
// saw the whole context.
// FAILED_PRECONDITION when the model does not divide by `ranks` or the device has no link for them,
// RESOURCE_EXHAUSTED when a device cannot hold it; the message says which number it is about.
absl::StatusOr<WorkerBuild> ReckonWorker(const ModelUse& model, const Hardware& hardware,
                                         int32_t ranks);

// Sequences in a step that memory for activations is reckoned with.
inline constexpr int32_t kMostSequences = 256;

}  // namespace baton::planner
