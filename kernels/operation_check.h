#pragma once

#include <cstdint>
#include <span>

#include "kernels/backend.h"

namespace baton::kernels {

// Ends the process unless query heads divide evenly over KV heads and the length of a head is one
// that every kernel can take: a multiple of 8 up to kMaxHeadDim.
void CheckHeads(const AttentionShape& shape);

// Ends the process unless every entry is an id below `vocab`. For backends whose tokens are all
// known to the host: they keep no last token of a slot.
void CheckTokens(std::span<const int32_t> tokens, int64_t vocab);

// Ends the process unless the layouts are equal, both blocks of every copy are of their arenas and
// no block is written that is read or written by another copy.
void CheckCopies(const PagedKv& from, const PagedKv& to, std::span<const BlockCopy> copies);

// What Backend demands of the arguments of its operations, written once for every device. A wrong
// argument is a bug of the code that makes up a step, never of a request, so each function ends the
// process and names what it found. A backend owns one OperationCheck, tells it about each step, and
// calls the function with the operation's name before it touches memory:
//
//   void CpuBackend::SiluMul(Matrix gate_up, Matrix out) {
//     check().SiluMul(gate_up, out);
class OperationCheck final {
 public:
  explicit OperationCheck(DType compute_dtype) : compute_dtype_(compute_dtype) {}

  // `rows` is what the backend's BeginStep returns, padding included.
  void BeginStep(const StepRows& rows, const KvLayout& kv) {
    rows_ = rows;
    kv_ = kv;
  }

  // Returns how many rows the table has.
  int64_t Embed(const Buffer& table, Matrix out) const;
  void EmbedFromPacked(const PackedWeight& weight, Matrix out) const;
  void GatherSampled(Matrix in, Matrix out) const;
  void RmsNorm(Matrix in, const Buffer& weight, Matrix out) const;
  void MatMul(const PackedWeight& weight, Matrix in, Matrix out,
              const MatMulEpilogue& epilogue) const;
  void RopeAndStoreKv(Matrix qkv, int layer, const AttentionShape& shape, const RopeShape& rope,
                      const QkNorm& norm) const;
  void PagedAttention(Matrix qkv, int layer, const AttentionShape& shape, Matrix out) const;
  void SiluMul(Matrix gate_up, Matrix out) const;
  void AllReduce(Matrix values) const;
  void GatherColumns(Matrix parts, Matrix out, int ranks) const;
  void Fetch(Matrix values, std::span<const float> host) const;
  void Sample(Matrix logits, std::span<const SampleRow> rows,
              std::span<const SampledToken> results) const;

 private:
  // What both operations on q, k and v demand of them.
  void Attention(Matrix qkv, int layer, const AttentionShape& shape) const;

  const DType compute_dtype_;
  StepRows rows_;  // of the step that began last, as kv_
  KvLayout kv_;
};

}  // namespace baton::kernels
