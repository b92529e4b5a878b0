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

class PackedImages;
struct QuantizedTensor;

// Memory of a device, freed with the object. It is 64-byte aligned, and its contents are undefined
// until something is written.
class Buffer {
 public:
  virtual ~Buffer() = default;
  virtual void* data() const = 0;
  virtual size_t size() const = 0;  // bytes
};

// A projection [out, in] in whatever layout its backend multiplies fastest. It is the only copy of
// the weight that stays in memory.
class PackedWeight {
 public:
  virtual ~PackedWeight() = default;
  virtual int64_t out() const = 0;
  virtual int64_t in() const = 0;
  virtual size_t bytes() const = 0;
  // Whether PackQuantized made it. Its rows cannot be read back as embeddings.
  virtual bool quantized() const { return false; }
};

// The rows and columns of a weight that one tensor-parallel rank keeps; the whole by default.
struct Shard {
  int64_t out_begin = 0;
  int64_t out_end = -1;  // one past the last; -1 = up to the end
  int64_t in_begin = 0;
  int64_t in_end = -1;
};

// The entry of StepLayout::tokens that stands for the last id drawn by the sequence in `slot` (see
// SampleRow::slot). The host need not know that id yet. Only a device whose
// BackendInfo::keeps_last_tokens is set understands such entries.
constexpr int32_t LastTokenOf(int32_t slot) { return -1 - slot; }

// The ragged batch of one step: the tokens of all its sequences in one flat list, sequence after
// sequence. Prompts, parts of prompts and single decoded tokens differ only in their lengths.
struct StepLayout {
  std::span<const int32_t> tokens;     // [tokens] ids, or LastTokenOf of a slot
  std::span<const int32_t> positions;  // [tokens] 0 is the first token of the prompt

  // The tokens of a sequence are [token_begin, token_begin + num_tokens) of the flat list. After
  // this step its cache holds positions [0, context), and its last token attends to all of them.
  struct Sequence {
    int32_t token_begin = 0;
    int32_t num_tokens = 0;
    int32_t context = 0;
    std::span<const int32_t> blocks;  // block table, >= ceil(context / block_size) ids
  };
  std::span<const Sequence> sequences;

  // The rows of the flat list after which a token is drawn. GatherSampled picks them out.
  std::span<const int32_t> sample_rows;  // [samples]
};

// How many rows the operations of a step compute: at least as many as its layout has. The rows
// beyond those are padding; they touch no KV block and their results mean nothing.
struct StepRows {
  int64_t tokens = 0;
  int64_t samples = 0;
};

// The longest head that a backend computes: kernels keep one in an array of this length.
inline constexpr int kMaxHeadDim = 256;

// The heads of one attention layer, as this rank computes them.
struct AttentionShape {
  int q_heads = 0;
  int kv_heads = 0;
  int head_dim = 0;        // a multiple of 8 up to kMaxHeadDim
  int sliding_window = 0;  // 0 = none; w: position p sees positions (p - w, p] only
  float scale = 0;         // multiplies q·k, usually 1/sqrt(head_dim)
  // Of a cache of kFp8: what keys and values are divided by before they become codes. 1 for others.
  float k_scale = 1;
  float v_scale = 1;
};

// Rotary embedding in the "rotate half" form: elements i and i + head_dim/2 of a head are a pair,
// which is rotated by the angle position * inv_freq[i].
struct RopeShape {
  std::span<const float> inv_freq;  // [head_dim / 2], after any scaling rule of the model
  float attention_factor = 1;       // multiplies cos and sin
};

// The RMS norms that some models apply to each head of q and k before it is rotated.
struct QkNorm {
  const Buffer* q = nullptr;  // fp32 [head_dim], or null when the model has none
  const Buffer* k = nullptr;
  float eps = 0;
};

// What happens to a product x·Wᵀ before it is written to the output.
struct MatMulEpilogue {
  const Buffer* bias = nullptr;  // fp32 [out], added to every row; or null
  bool accumulate = false;       // out, which is fp32, += x·Wᵀ + bias instead of =
};

// One way in which steps will multiply by a weight, for Backend::Prepare.
struct MatMulUse {
  const PackedWeight* weight = nullptr;
  DType out = DType::kF32;  // dtype of the output
  bool bias = false;
  bool accumulate = false;
  int max_rows = 0;
  // Whether it is this rank's part of what AllReduce sums or GatherColumns joins. Shape and
  // epilogue of parts differ between ranks; all ranks of a group have the other uses alike, in one
  // order.
  bool part = false;
};

// What steps will be made of and how large they get, for Backend::Prepare.
struct StepUses {
  std::span<const MatMulUse> products;
  std::span<const AttentionShape> attentions;  // one of each that differs
  std::optional<RopeShape> rope;
  int max_tokens = 0;   // of one step
  int max_samples = 0;  // rows of one step that draw a token
  // Of one step, and so the rows of the largest decode step; 0: as many as draw a token.
  int max_sequences = 0;
  int max_context = 0;  // tokens of the longest sequence
  int vocab = 0;        // columns of the logits
  int64_t fetched = 0;  // numbers that Fetch brings to the host after a step
};

// How the memory of a device that has its own is taken up.
struct DeviceMemorySize {
  int64_t own_bytes = 0;  // allocated through this backend; what libraries take is not counted
  int64_t free_bytes = 0;
  int64_t total_bytes = 0;
};

// How a backend computes, for a worker to report. Backends with equal `numerics()` draw the same
// tokens for the same request.
struct BackendInfo {
  Device device = Device::kCpu;
  std::string isa;     // "amx" | "avx512_bf16" | "avx512" | "avx2" | "scalar" | "sm_90"
  std::string matmul;  // the implementation that was chosen, e.g. "pairs:avx512_bf16"
  int threads = 1;
  DType compute_dtype = DType::kF32;
  int attention_version = 1;  // of the arithmetic; on a CPU 2 is in pairs of bfloat16
  int ranks = 1;  // of the tensor-parallel group; they decide how sums over ranks are rounded
  // Whether the device keeps the last id that each slot drew. A step may then begin, and feed those
  // ids, before the step that draws them has ended; at most two steps are between BeginStep and
  // EndStep. Otherwise a step ends before the next begins.
  bool keeps_last_tokens = false;
  // A decode step, in which each sequence adds one token and draws the next, is repeated as it was
  // captured when one of its size ran before. Those of more rows run as they are; 0: all do.
  int max_captured_rows = 0;
  // Projections of e4m3 are packed as they are where both their sides, as this rank has them, are
  // multiples of this; 0: none is.
  int fp8_multiple = 0;
  // Whether products by small integers round their inputs to 8 bits: see InputScale. It is named by
  // LoadedModel::numerics.
  bool rounds_inputs = false;
  std::string numerics() const {
    return std::string(Name(device)) + "/" + isa + "/" + std::string(Name(compute_dtype)) + "/" +
           matmul + "/attn" + std::to_string(attention_version) +
           (ranks > 1 ? "/tp" + std::to_string(ranks) : "");
  }
};

// A device and what it can do: about a dozen coarse operations on raw memory. It knows nothing of
// requests. A step, with one product and one sampled token in place of a whole model, goes so:
//
//   auto backend = MakeBackend({.device = Device::kCpu, .compute_dtype = DType::kBF16}).value();
//   auto weight = backend->Pack({data, DType::kBF16, vocab, hidden}, {}).value();  // load, once
//   const StepRows rows = backend->BeginStep(layout, kv).value();
//   backend->RunStep(1, [&] {
//     backend->EmbedFromPacked(*weight, residual);        // fp32 [rows.tokens, hidden]
//     backend->RmsNorm(residual, *norm, 1e-5f, normed);   // [rows.tokens, hidden]
//     backend->GatherSampled(normed, last);               // [rows.samples, hidden]
//     backend->MatMul(*weight, last, logits, {});         // fp32 [rows.samples, vocab]
//   });
//   backend->Sample(logits, sample_rows, results);
//   backend->EndStep();                                   // results are on the host now
//
// One thread drives a backend. BeginStep does all of a step's work on the host; the operations
// after it only launch, and nothing is allocated, read back or waited for until EndStep.
// Activations are in the compute dtype; the residual stream, the inputs of norms and logits are
// fp32. The memory of a Buffer or Matrix is the device's: the host reaches it through Upload,
// Download and Zero only. On a CPU a row gets the same bits whatever the other rows of its step
// are; on a GPU it also depends on how many they are. operation_check.h holds what every operation
// demands of its arguments.
class Backend {
 public:
  virtual ~Backend() = default;

  virtual const BackendInfo& info() const = 0;

  virtual absl::StatusOr<std::unique_ptr<Buffer>> Allocate(size_t bytes) = 0;
  // Memory of the host for an arena that CopyBlocks reaches without a wait: a device's is pinned.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> AllocateOnHost(size_t bytes) = 0;
  // Writes zeros, which also makes the host's kernel hand out every page.
  virtual absl::Status Zero(Buffer& buffer) = 0;
  // Both copy between the host's memory and the device's and return when it is done. Not to be
  // called during a step.
  virtual absl::Status Upload(const void* host, size_t bytes, void* device) = 0;
  virtual absl::Status Download(const void* device, size_t bytes, void* host) = 0;
  // Empty for a backend whose buffers lie in the host's memory.
  virtual absl::StatusOr<std::optional<DeviceMemorySize>> DeviceMemory() const = 0;

  // Brings the `shard` of a projection to the device, converted and laid out for MatMul.
  // INVALID_ARGUMENT for a shard outside the weight. A weight of kFp8 has sides as fp8_multiple
  // says.
  virtual absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const HostTensor& weight,
                                                             const Shard& shard) = 0;
  // The same for a projection of small integers, which keeps its size. INVALID_ARGUMENT as
  // ResolveShard and GroupOfShard say.
  virtual absl::StatusOr<std::unique_ptr<PackedWeight>> PackQuantized(const QuantizedTensor& weight,
                                                                      const Shard& shard) = 0;
  // Packed weights as bytes, for a file that processes share; null on a backend without.
  virtual const PackedImages* packed_images() const = 0;
  // Brings a vector (the weight of a norm, a bias) to the device as fp32.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> UploadVector(const HostTensor& vector) = 0;
  // Brings an embedding table [vocab, hidden] to the device in the compute dtype, for Embed.
  virtual absl::StatusOr<std::unique_ptr<Buffer>> UploadTable(const HostTensor& table) = 0;
  // Whether EmbedFromPacked works, so that a model with tied embeddings needs no table beside its
  // packed output projection.
  virtual bool CanEmbedFromPacked() const = 0;

  // Copies blocks from one arena to another of the same layout, or inside one: what steps that
  // began before have written, for steps that begin later to read. One of the two may lie in memory
  // of AllocateOnHost. Calls take effect one after the other. In one, no block is written twice,
  // and none that is written is read. Not to be called during RunStep.
  virtual absl::Status CopyBlocks(const PagedKv& from, const PagedKv& to,
                                  std::span<const BlockCopy> copies) = 0;

  // Makes everything that such steps may need, so that nothing has to be made while serving. What
  // is not named here still works, but is made when it is first used.
  virtual absl::Status Prepare(const StepUses& uses) = 0;

  // Begins a step: checks the layout against `kv`, plans attention and brings the inputs to the
  // device. The layout's spans must stay valid until the step's last operation has returned.
  virtual absl::StatusOr<StepRows> BeginStep(const StepLayout& layout, const PagedKv& kv) = 0;

  // Calls `operations`, which launches the operations of the step that began, or repeats what an
  // earlier call launched. `program` is the caller's name for them: when two calls agree in it and
  // in StepRows, their `operations` launch the same operations on the same memory.
  virtual absl::Status RunStep(uint64_t program, absl::FunctionRef<void()> operations) = 0;

  // out fp32 [tokens, hidden] = for each token its row of the table, or of the packed weight.
  virtual void Embed(const Buffer& table, Matrix out) = 0;
  virtual void EmbedFromPacked(const PackedWeight& weight, Matrix out) = 0;

  // out [samples, cols] = the rows of in [tokens, cols] that the step's sample_rows name.
  virtual void GatherSampled(Matrix in, Matrix out) = 0;

  // out = in / sqrt(mean(in²) + eps) * weight, row by row; `in` is fp32, `out` is in the compute
  // dtype or fp32.
  virtual void RmsNorm(Matrix in, const Buffer& weight, float eps, Matrix out) = 0;

  // out [rows, weight.out] = in [rows, weight.in] · weightᵀ, then the epilogue. `in` is in the
  // compute dtype, `out` is that or fp32.
  virtual void MatMul(const PackedWeight& weight, Matrix in, Matrix out,
                      const MatMulEpilogue& epilogue) = 0;

  // qkv [tokens, (q_heads + 2 kv_heads) * head_dim] holds q, then k, then v. Normalises the heads
  // of q and k where `norm` says so, rotates both by the token's position, and writes K and V,
  // rounded as paged_kv.h says, to the token's position in its block, in layer `layer`. q is
  // left in place as PagedAttention of this backend and shape reads it: rotated, and on a GPU times
  // the power of two of a k_scale below 1.
  virtual void RopeAndStoreKv(Matrix qkv, int layer, const AttentionShape& shape,
                              const RopeShape& rope, const QkNorm& norm) = 0;

  // out [tokens, q_heads * head_dim]: what each query reads from the cache by causal attention. q
  // comes from `qkv`, K and V only from the blocks of the cache.
  virtual void PagedAttention(Matrix qkv, int layer, const AttentionShape& shape, Matrix out) = 0;

  // out [tokens, ffn] = silu(gate) * up of gate_up [tokens, 2 * ffn], which holds gate, then up.
  virtual void SiluMul(Matrix gate_up, Matrix out) = 0;

  // Replaces the fp32 `values` by their sum over the ranks of this backend's group, the same bits
  // on each rank. Does nothing for a backend without a group. EndStep reports a rank that did not
  // come.
  virtual void AllReduce(Matrix values) = 0;

  // out fp32 [rows, cols] = the columns that the ranks of this backend's group have computed, side
  // by side: ShareOfColumns says which has which. Row r of `parts`, dense fp32 [ranks, rows *
  // WidestShare], begins with rank r's part [rows, its share], dense. This rank has written its
  // own, the others' are filled in. EndStep reports a rank that did not come.
  virtual void GatherColumns(Matrix parts, Matrix out) = 0;

  // Draws a token for each of `rows` from logits fp32 [at least rows, vocab], which are scratch
  // afterwards. A row whose logits are no distribution has a result that is not valid, and no other
  // row is touched by it. `results` is filled when EndStep returns and must stay alive until then.
  virtual void Sample(Matrix logits, std::span<const SampleRow> rows,
                      std::span<SampledToken> results) = 0;

  // Brings the first host.size() numbers of `values`, fp32 and dense, to the host, at most once a
  // step and after its RunStep. `host` is filled when EndStep returns and must stay valid until
  // then.
  virtual void Fetch(Matrix values, std::span<float> host) = 0;

  // Waits for the oldest step that has begun; its results are on the host when this returns. A
  // fault of the device during the step is reported here.
  virtual absl::Status EndStep() = 0;
};

}  // namespace baton::kernels
