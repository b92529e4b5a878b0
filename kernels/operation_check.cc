#include "kernels/operation_check.h"

#include <set>

#include "common/base/check.h"
#include "kernels/column_share.h"
#include "kernels/sample_processors.h"

namespace baton::kernels {
namespace {

bool HoldsFloats(const Buffer* buffer, int64_t count) {
  return buffer->size() >= static_cast<size_t>(count) * sizeof(float);
}

void CheckEmbedded(Matrix out, int64_t tokens) {
  BATON_CHECK(out.dtype == DType::kF32) << "embeddings are fp32, not " << Name(out.dtype);
  BATON_CHECK(out.rows == tokens) << out.rows << " embeddings for " << tokens << " tokens";
}

}  // namespace

void CheckHeads(const AttentionShape& shape) {
  BATON_CHECK(shape.head_dim % 8 == 0 && 0 < shape.head_dim && shape.head_dim <= kMaxHeadDim)
      << "head_dim " << shape.head_dim << ", expected a multiple of 8 up to " << kMaxHeadDim;
  BATON_CHECK(shape.kv_heads > 0 && shape.q_heads % shape.kv_heads == 0)
      << shape.q_heads << " query heads over " << shape.kv_heads << " KV heads";
}

void CheckTokens(std::span<const int32_t> tokens, int64_t vocab) {
  for (const int32_t token : tokens) {
    BATON_CHECK(token >= 0 && token < vocab) << "token " << token << " of " << vocab;
  }
}

void CheckCopies(const PagedKv& from, const PagedKv& to, std::span<const BlockCopy> copies) {
  BATON_CHECK(from.layout == to.layout) << "a copy of blocks of " << from.layout.block_bytes()
                                        << " bytes to blocks of " << to.layout.block_bytes();
  std::set<int32_t> read, written;
  for (const BlockCopy& copy : copies) {
    BATON_CHECK(copy.from >= 0 && copy.from < from.num_blocks)
        << "a copy of block " << copy.from << " in a cache of " << from.num_blocks;
    BATON_CHECK(copy.to >= 0 && copy.to < to.num_blocks)
        << "a copy to block " << copy.to << " in a cache of " << to.num_blocks;
    read.insert(copy.from);
    BATON_CHECK(written.insert(copy.to).second)
        << "block " << copy.to << " is written by two copies";
  }
  if (from.arena != to.arena) return;
  for (const int32_t block : written) {
    BATON_CHECK(!read.contains(block))
        << "block " << block << " is read by a copy and written by one";
  }
}

int64_t OperationCheck::Embed(const Buffer& table, Matrix out) const {
  CheckEmbedded(out, rows_.tokens);
  const auto elements = static_cast<int64_t>(table.size() / SizeOf(compute_dtype_));
  BATON_CHECK(out.cols > 0 && elements % out.cols == 0)
      << "a table of " << elements << " numbers for embeddings of " << out.cols;
  return elements / out.cols;
}

void OperationCheck::EmbedFromPacked(const PackedWeight& weight, Matrix out) const {
  CheckEmbedded(out, rows_.tokens);
  BATON_CHECK(!weight.quantized()) << "embeddings from a weight of " << weight.out() << " x "
                                   << weight.in() << " that is quantized";
  BATON_CHECK(out.cols == weight.in())
      << "embeddings of " << out.cols << " from rows of " << weight.in();
}

void OperationCheck::GatherSampled(Matrix in, Matrix out) const {
  BATON_CHECK(in.dtype == out.dtype && in.cols == out.cols)
      << "a gather of " << in.cols << " " << Name(in.dtype) << " as " << out.cols << " "
      << Name(out.dtype);
  BATON_CHECK(in.rows == rows_.tokens && out.rows == rows_.samples)
      << "a gather of " << out.rows << " of " << in.rows << " rows in a step of " << rows_.tokens
      << " tokens and " << rows_.samples << " samples";
}

void OperationCheck::RmsNorm(Matrix in, const Buffer& weight, Matrix out) const {
  BATON_CHECK(in.cols == out.cols && in.rows == out.rows)
      << in.rows << " x " << in.cols << " into " << out.rows << " x " << out.cols;
  BATON_CHECK(in.dtype == DType::kF32 && HoldsFloats(&weight, in.cols))
      << "a norm of " << in.cols << " " << Name(in.dtype) << " by " << weight.size()
      << " bytes of weights; both are fp32";
  BATON_CHECK(out.dtype == compute_dtype_ || out.dtype == DType::kF32)
      << "a norm gives the compute dtype or fp32, not " << Name(out.dtype);
}

void OperationCheck::MatMul(const PackedWeight& weight, Matrix in, Matrix out,
                            const MatMulEpilogue& epilogue) const {
  BATON_CHECK(in.cols == weight.in() && out.cols == weight.out() && in.rows == out.rows)
      << in.rows << " x " << in.cols << " by " << weight.out() << " x " << weight.in() << " into "
      << out.rows << " x " << out.cols;
  BATON_CHECK(in.dense() && out.dense()) << "matmul operands have no gap between rows";
  BATON_CHECK(in.dtype == compute_dtype_)
      << "a matmul takes the compute dtype, not " << Name(in.dtype);
  BATON_CHECK(out.dtype == DType::kF32 || (out.dtype == compute_dtype_ && !epilogue.accumulate))
      << "a matmul gives fp32 or, unless it accumulates, the compute dtype, not "
      << Name(out.dtype);
  BATON_CHECK(epilogue.bias == nullptr || HoldsFloats(epilogue.bias, out.cols))
      << "a bias of " << epilogue.bias->size() << " bytes for " << out.cols << " columns";
}

void OperationCheck::Attention(Matrix qkv, int layer, const AttentionShape& shape) const {
  CheckHeads(shape);
  const int64_t heads = shape.q_heads + 2 * int64_t{shape.kv_heads};
  BATON_CHECK(qkv.rows == rows_.tokens && qkv.cols == heads * shape.head_dim)
      << qkv.rows << " x " << qkv.cols << " for " << rows_.tokens << " tokens and " << heads
      << " heads of " << shape.head_dim;
  BATON_CHECK(qkv.dtype == compute_dtype_)
      << "q, k and v are in the compute dtype, not " << Name(qkv.dtype);
  BATON_CHECK(0 <= layer && layer < kv_.layers && shape.kv_heads == kv_.kv_heads &&
              shape.head_dim == kv_.head_dim)
      << "layer " << layer << " with " << shape.kv_heads << " KV heads of " << shape.head_dim
      << " in blocks of " << kv_.layers << " layers with " << kv_.kv_heads << " heads of "
      << kv_.head_dim;
  BATON_CHECK(kv_.dtype == DType::kFp8 ? shape.k_scale > 0 && shape.v_scale > 0
                                       : shape.k_scale == 1 && shape.v_scale == 1)
      << "scales " << shape.k_scale << " and " << shape.v_scale << " of a KV cache of "
      << Name(kv_.dtype);
}

void OperationCheck::RopeAndStoreKv(Matrix qkv, int layer, const AttentionShape& shape,
                                    const RopeShape& rope, const QkNorm& norm) const {
  Attention(qkv, layer, shape);
  BATON_CHECK(rope.inv_freq.size() * 2 == static_cast<size_t>(shape.head_dim))
      << rope.inv_freq.size() << " rotary frequencies for head_dim " << shape.head_dim;
  for (const Buffer* const weight : {norm.q, norm.k}) {
    BATON_CHECK(weight == nullptr || HoldsFloats(weight, shape.head_dim))
        << weight->size() << " bytes of norm weights for head_dim " << shape.head_dim;
  }
}

void OperationCheck::PagedAttention(Matrix qkv, int layer, const AttentionShape& shape,
                                    Matrix out) const {
  Attention(qkv, layer, shape);
  BATON_CHECK(qkv.dtype == out.dtype) << "attention keeps the activations' dtype";
  BATON_CHECK(out.rows == qkv.rows && out.cols == int64_t{shape.q_heads} * shape.head_dim &&
              out.dense())
      << out.rows << " x " << out.cols << ", " << out.stride << " apart, for " << qkv.rows
      << " rows and " << shape.q_heads << " heads of " << shape.head_dim << " without gaps";
}

void OperationCheck::SiluMul(Matrix gate_up, Matrix out) const {
  BATON_CHECK(gate_up.cols == 2 * out.cols && gate_up.rows == out.rows)
      << gate_up.rows << " x " << gate_up.cols << " into " << out.rows << " x " << out.cols;
  BATON_CHECK(gate_up.dtype == compute_dtype_ && out.dtype == compute_dtype_)
      << "gate, up and their product are in the compute dtype, not " << Name(gate_up.dtype)
      << " and " << Name(out.dtype);
}

void OperationCheck::AllReduce(Matrix values) const {
  BATON_CHECK(values.dtype == DType::kF32 && values.dense())
      << "values that are summed over ranks are fp32 and dense";
}

void OperationCheck::GatherColumns(Matrix parts, Matrix out, int ranks) const {
  BATON_CHECK(parts.dtype == DType::kF32 && out.dtype == DType::kF32)
      << "columns that are gathered are fp32";
  BATON_CHECK(parts.dense() && parts.rows == ranks &&
              parts.cols == out.rows * WidestShare(out.cols, ranks))
      << parts.rows << " x " << parts.cols << " for the parts of " << ranks << " ranks of "
      << out.rows << " x " << out.cols;
}

void OperationCheck::Fetch(Matrix values, std::span<const float> host) const {
  BATON_CHECK(values.dtype == DType::kF32 && values.dense())
      << "numbers that are fetched are fp32 and dense";
  BATON_CHECK(static_cast<int64_t>(host.size()) <= values.rows * values.cols)
      << host.size() << " numbers to fetch of " << values.rows << " x " << values.cols;
}

void OperationCheck::Sample(Matrix logits, std::span<const SampleRow> rows,
                            std::span<const SampledToken> results) const {
  BATON_CHECK(logits.dtype == DType::kF32) << "logits are fp32, not " << Name(logits.dtype);
  BATON_CHECK(rows.size() == results.size() && static_cast<int64_t>(rows.size()) <= logits.rows)
      << rows.size() << " rows to sample into " << results.size() << " results from " << logits.rows
      << " rows of logits";
  for (const SampleRow& row : rows) {
    BATON_CHECK(IsSet(row.eos_ids) && IsSet(row.stop_ids))
        << "the " << row.eos_ids.size() << " EOS ids and " << row.stop_ids.size()
        << " stop ids of a row are ascending, each once";
  }
}

}  // namespace baton::kernels
