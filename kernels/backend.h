#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/eos_signal.h"
#include "kernels/device.h"
#include "kernels/dtype.h"
#include "kernels/paged_kv.h"
#include "kernels/sampling.h"
#include "kernels/tensor_view.h"

namespace baton::kernels {

// Device memory, freed with the object. 64-byte aligned; contents undefined.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() const = 0;
  virtual size_t size() const = 0;  // bytes
};

// A projection [out, in] in the device's own layout: the only copy of the weight in memory.
class PackedWeight {
 public:
  virtual ~PackedWeight() = default;
  virtual int64_t out() const = 0;
  virtual int64_t in() const = 0;
  virtual size_t bytes() const = 0;
};

// Rows or columns [begin, end) of a weight that this rank keeps; the whole by default.
struct Shard {
  int64_t out_begin = 0;
  int64_t out_end = -1;  // -1 = all
  int64_t in_begin = 0;
  int64_t in_end = -1;
};

// An entry of StepLayout::tokens that stands for the last id that `slot` drew (SampleRow::slot),
// which the host need not know. For a device that says BackendInfo::keeps_last_tokens.
constexpr int32_t LastTokenOf(int32_t slot) { return -1 - slot; }

// The ragged batch of one step: `tokens` flat, sequence after sequence.
struct StepLayout {
  std::span<const int32_t> tokens;     // [tokens] ids, or LastTokenOf
  std::span<const int32_t> positions;  // [tokens] from 0 at the prompt's first token

  // One entry per sequence. Its tokens are [token_begin, token_begin + num_tokens) of the flat
  // list; it attends to `context` tokens after this step: positions [0, context).
  struct Sequence {
    int32_t token_begin = 0;
    int32_t num_tokens = 0;
    int32_t context = 0;
    std::span<const int32_t> blocks;  // block table, >= ceil(context / block_size) ids
  };
  std::span<const Sequence> sequences;

  // Rows of the flat list whose logits are wanted, for GatherSampled.
  std::span<const int32_t> sample_rows;  // [samples]
};

// How many rows the operations of a step compute: at least as many as the layout has. What is
// beyond those is padding; it touches no KV block and its results mean nothing.
struct StepRows {
  int64_t tokens = 0;
  int64_t samples = 0;
};

// The longest head that a backend computes: kernels keep one in an array of this length.
inline constexpr int kMaxHeadDim = 256;

struct AttentionShape {
  int q_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;        // a multiple of 8 up to kMaxHeadDim
  int sliding_window = 0;  // 0 = full; w: position p sees positions (p - w, p]
  float scale = 0;         // of q·k, usually 1/sqrt(head_dim)
};

// Rotary embedding in the "rotate half" form: pairs are (i, i + head_dim/2).
struct RopeShape {
  std::span<const float> inv_freq;  // [head_dim / 2], after any scaling rule of the model
  float attention_factor = 1;       // multiplies cos and sin
};

struct QkNorm {
  const Buffer* q = nullptr;  // fp32 [head_dim], or null when the model has none
  const Buffer* k = nullptr;
  float eps = 0;
};

struct MatMulEpilogue {
  const Buffer* bias = nullptr;  // fp32 [out], added; or null
  bool accumulate = false;       // out, which is fp32, += x·Wᵀ + bias instead of =
};

// One way in which a step multiplies by a weight, for Backend::Prepare.
struct MatMulUse {
  const PackedWeight* weight = nullptr;
  DType out = DType::kF32;  // dtype of the output
  bool bias = false;
  bool accumulate = false;
  int max_rows = 0;
};

// The largest steps there will be and the operations they are made of, for Backend::Prepare.
struct StepUses {
  std::span<const MatMulUse> products;
  std::span<const AttentionShape> attentions;  // each that differs
  std::optional<RopeShape> rope;
  int max_tokens = 0;   // of a step
  int max_samples = 0;  // likewise
  int vocab = 0;        // columns of the logits
};

// Memory of a device that has its own.
struct DeviceMemorySize {
  int64_t own_bytes = 0;  // allocated by this process; what libraries take is not counted
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
};

// What a worker reports about how it computes. Token identity holds within one `numerics()`.
struct BackendInfo {
  Device device = Device::kCpu;
  std::string isa;     // "avx512" | "avx2" | "scalar" | "sm_90"
  std::string matmul;  // chosen implementation, e.g. "brg:avx512_core_bf16"
  int threads = 1;
  DType compute_dtype = DType::kF32;
  int attention_version = 1;
  // A row gets the same bits whatever the other rows of its step are. Without it that holds for
  // their contents, not for how many they are.
  bool batch_invariant = true;
  int ranks = 1;  // of the tensor-parallel group; sums over ranks are rounded as often
  // The device keeps the last id that each slot drew, so that a step may begin, and feed those ids,
  // before the one that draws them has ended; at most two steps are between BeginStep and EndStep.
  bool keeps_last_tokens = false;
  std::string numerics() const {
    return std::string(Name(device)) + "/" + isa + "/" + std::string(Name(compute_dtype)) + "/" +
           matmul + "/attn" + std::to_string(attention_version) +
           (ranks > 1 ? "/tp" + std::to_string(ranks) : "");
  }
};

// The device: about a dozen coarse operations on raw memory. Knows nothing of requests.
//
// One thread drives a backend. BeginStep does all host work of a step; the operations after it only
// launch: nothing is allocated, read back or waited for until EndStep. Activations are in the
// compute dtype; the residual stream, norms' inputs and logits are fp32. The memory of Buffer and
// Matrix is the device's; the host reaches it through Upload, Download and Zero.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const BackendInfo& info() const = 0;

  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) = 0;
  // Writes zeros, and so every page.
  virtual absl::Status Zero(Buffer& buffer) = 0;
  // Copies between host memory and the device's, and waits. Not during a step.
  virtual absl::Status Upload(const void* host, size_t bytes, void* device) = 0;
  virtual absl::Status Download(const void* device, size_t bytes, void* host) = 0;
  // nullopt: buffers are in the host's memory.
  virtual absl::StatusOr<std::optional<DeviceMemorySize>> DeviceMemory() const = 0;

  virtual absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const HostTensor& weight,
                                                             const Shard& shard) = 0;
  // A vector (norm weight, bias) as fp32.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> UploadVector(const HostTensor& vector) = 0;
  // An embedding table [vocab, hidden] in the compute dtype, for Embed.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> UploadTable(const HostTensor& table) = 0;
  // Embedding rows can also be read from a packed projection that is tied to it; false = the model
  // keeps a table beside the packed output projection.
  virtual bool CanEmbedFromPacked() const = 0;

  // Makes everything that such steps may need, so that nothing is created while serving. What is
  // not named here still works, but is made when it is first used.
  virtual absl::Status Prepare(const StepUses& uses) = 0;

  // Checks the layout against `kv`, plans attention and brings the inputs to the device. Spans must
  // stay valid until the step's last operation returned.
  virtual absl::StatusOr<StepRows> BeginStep(const StepLayout& layout, const PagedKv& kv) = 0;

  // Calls `operations`, which launches operations of the step that began, or repeats what an
  // earlier call launched. `program` names them: for equal programs and StepRows, `operations`
  // launches the same operations on the same memory.
  virtual absl::Status RunStep(uint64_t program, absl::FunctionRef<void()> operations) = 0;

  // out fp32 [tokens, hidden] = row of the table (or of the packed weight) per token.
  virtual void Embed(const Buffer& table, Matrix out) = 0;
  virtual void EmbedFromPacked(const PackedWeight& weight, Matrix out) = 0;

  // out [samples, cols] = in[sample_rows[i]] of the step.
  virtual void GatherSampled(Matrix in, Matrix out) = 0;

  // out = in / sqrt(mean(in²) + eps) * weight; in fp32, out in the compute dtype (or fp32).
  virtual void RmsNorm(Matrix in, const Buffer& weight, float eps, Matrix out) = 0;

  // out [rows, weight.out] from in [rows, weight.in]; out is fp32 or the compute dtype.
  virtual void MatMul(const PackedWeight& weight, Matrix in, Matrix out,
                      const MatMulEpilogue& epilogue) = 0;

  // qkv [tokens, (q_heads + 2 kv_heads) * head_dim], q then k then v. Normalises q and k heads
  // where `norm` says so, rotates both by the token's position, writes K and V, rounded to the KV
  // dtype, into the token's slot of layer `layer`. q is left rotated in place.
  virtual void RopeAndStoreKv(Matrix qkv, int layer, const AttentionShape& shape,
                              const RopeShape& rope, const QkNorm& norm) = 0;

  // out [tokens, q_heads * head_dim]. Reads q from `qkv`, K and V only from the paged store.
  // Causal.
  virtual void PagedAttention(Matrix qkv, int layer, const AttentionShape& shape, Matrix out) = 0;

  // gate_up [tokens, 2 * ffn], gate then up; out [tokens, ffn] = silu(gate) * up.
  virtual void SiluMul(Matrix gate_up, Matrix out) = 0;

  // values fp32, dense: their sum over the ranks of this backend's group, the same bits on each.
  // Nothing for a backend without a group. Where a rank is missing, EndStep reports it.
  virtual void AllReduce(Matrix values) = 0;

  // logits fp32 [rows, vocab]; one result per row, filled when EndStep returns. `logits` is scratch
  // afterwards. `results` stays valid until then.
  virtual void Sample(Matrix logits, std::span<const SampleRow> rows,
                      std::span<SampledToken> results) = 0;

  // Ends the step; after this results are on the host. Reports a device fault.
  virtual absl::Status EndStep() = 0;
};

}  // namespace baton::kernels
