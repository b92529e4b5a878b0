#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/collective.h"
#include "kernels/column_share.h"
#include "kernels/cuda/attention/key_scale.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/graph/row_buckets.h"
#include "kernels/cuda/rows/rope_store.h"
#include "kernels/cuda/rows/row_ops.h"

namespace baton::kernels {

cuda::LastTokens CudaBackend::LastDrawn() const {
  if (sampler_ == nullptr) return {};
  return {.ids = sampler_->last_tokens(), .slots = sampler_->slots()};
}

void CudaBackend::Embed(const Buffer& table, Matrix out) {
  const int64_t vocab = check_.Embed(table, out);
  Note(cuda::LaunchEmbed(table.data(), info_.compute_dtype, vocab, inputs_->device().tokens,
                         LastDrawn(), out, stream_.handle()),
       "embedding");
}

void CudaBackend::EmbedFromPacked(const PackedWeight& weight, Matrix out) {
  check_.EmbedFromPacked(weight, out);
  BATON_CHECK(!cuda::OnDevice(weight).fp8()) << "embeddings keep their precision";
  Note(cuda::LaunchEmbed(cuda::OnDevice(weight).data(), info_.compute_dtype, weight.out(),
                         inputs_->device().tokens, LastDrawn(), out, stream_.handle()),
       "embedding");
}

void CudaBackend::GatherSampled(Matrix in, Matrix out) {
  check_.GatherSampled(in, out);
  Note(cuda::LaunchGather(in, inputs_->device().sample_rows, out, stream_.handle()), "gathering");
}

void CudaBackend::RmsNorm(Matrix in, const Buffer& weight, float eps, Matrix out) {
  check_.RmsNorm(in, weight, out);
  Note(cuda::LaunchRmsNorm(in, cuda::Floats(&weight), eps, out, stream_.handle()), "rms_norm");
}

absl::Status CudaBackend::MatMulFp8(const cuda::DeviceWeight& weight, Matrix in, Matrix out,
                                    const MatMulEpilogue& epilogue) {
  BATON_ASSIGN_OR_RETURN(
      const int64_t rung,
      fp8_products_->ladder().Serve(cuda::Fp8Products::KeyOf(weight, 0, info_.compute_dtype),
                                    in.rows, cuda::Fp8Ladder::MostRows(in.rows),
                                    [&](const cuda::MatMulKey& key) { return matmul_->Ask(key); }));
  BATON_ASSIGN_OR_RETURN(const bool moved, fp8_products_->Reserve(rung, in.cols, out.cols));
  if (moved) graphs_.Clear();
  return fp8_products_->Run(*matmul_, weight, rung, in, out, cuda::Floats(epilogue.bias),
                            epilogue.accumulate);
}

absl::Status CudaBackend::MatMulIntegers(const cuda::IntegerWeight& weight, Matrix in, Matrix out,
                                         const MatMulEpilogue& epilogue) {
  if (cuda::QuantizedProducts::Widens(in.rows)) {
    BATON_ASSIGN_OR_RETURN(const bool moved, integer_products_.Reserve(weight.out(), weight.in()));
    if (moved) graphs_.Clear();
  }
  return integer_products_.Run(*matmul_, weight, in, out,
                               static_cast<const cuda::DeviceVector*>(epilogue.bias),
                               epilogue.accumulate);
}

void CudaBackend::MatMul(const PackedWeight& weight, Matrix in, Matrix out,
                         const MatMulEpilogue& epilogue) {
  check_.MatMul(weight, in, out, epilogue);
  if (in.rows == 0) return;
  if (weight.quantized()) {
    return Note(MatMulIntegers(cuda::IntegersOnDevice(weight), in, out, epilogue));
  }
  const cuda::DeviceWeight& packed = cuda::OnDevice(weight);
  if (packed.fp8()) return Note(MatMulFp8(packed, in, out, epilogue));
  const auto* bias = static_cast<const cuda::DeviceVector*>(epilogue.bias);
  const cuda::MatMulKey key = {.rows = cuda::RowBucket(in.rows),
                               .out = weight.out(),
                               .in = weight.in(),
                               .out_dtype = out.dtype,
                               .bias = bias != nullptr,
                               .accumulate = epilogue.accumulate};
  Note(matmul_->Run(key, in.rows,
                    {.weight = packed.data(),
                     .in = in.data,
                     .out = out.data,
                     .bias = bias != nullptr ? bias->in(out.dtype) : nullptr}));
}

void* CudaBackend::Plane(int layer, int plane) const {
  return kv_.arena + kv_.offset(layer, plane, 0, 0);
}

void CudaBackend::RopeAndStoreKv(Matrix qkv, int layer, const AttentionShape& shape,
                                 const RopeShape& rope, const QkNorm& norm) {
  check_.RopeAndStoreKv(qkv, layer, shape, rope, norm);
  Note(SetRope(rope.inv_freq));
  Note(cuda::LaunchRopeStore({.qkv = qkv,
                              .positions = inputs_->device().positions,
                              .cache_index = inputs_->device().cache_index,
                              .inv_freq = static_cast<const float*>(inv_freq_device_->data()),
                              .attention_factor = rope.attention_factor,
                              .q_norm = cuda::Floats(norm.q),
                              .k_norm = cuda::Floats(norm.k),
                              .norm_eps = norm.eps,
                              .q_scale = cuda::SplitKeyScale(shape.k_scale).query,
                              .q_heads = shape.q_heads,
                              .kv_heads = shape.kv_heads,
                              .head_dim = shape.head_dim,
                              .kv_dtype = kv_.layout.dtype,
                              .k_scale = shape.k_scale,
                              .v_scale = shape.v_scale,
                              .block_size = kv_.layout.block_size,
                              .k = Plane(layer, 0),
                              .v = Plane(layer, 1),
                              .block_stride = static_cast<int64_t>(kv_.layout.block_elements())},
                             stream_.handle()),
       "rope and store");
}

void CudaBackend::SiluMul(Matrix gate_up, Matrix out) {
  check_.SiluMul(gate_up, out);
  Note(cuda::LaunchSiluMul(gate_up, out, stream_.handle()), "silu_mul");
}

void CudaBackend::AllReduce(Matrix values) {
  check_.AllReduce(values);
  if (collective_ == nullptr || LostCapture()) return;
  Note(collective_->AllReduceSum(
      {static_cast<float*>(values.data), static_cast<size_t>(values.rows * values.cols)},
      stream_.handle()));
}

void CudaBackend::GatherColumns(Matrix parts, Matrix out) {
  check_.GatherColumns(parts, out, info_.ranks);
  if (collective_ != nullptr && !LostCapture()) {
    Note(collective_->AllGather(
        {static_cast<float*>(parts.data), static_cast<size_t>(parts.rows * parts.cols)},
        stream_.handle()));
  }
  for (int rank = 0; rank < info_.ranks; ++rank) {
    const ColumnShare share = ShareOfColumns(out.cols, rank, info_.ranks);
    const auto width = static_cast<size_t>(share.size()) * sizeof(float);
    Note(cuda::CopyRows(static_cast<float*>(out.data) + share.begin,
                        static_cast<size_t>(out.stride) * sizeof(float), parts.row(rank), width,
                        width, static_cast<size_t>(out.rows), stream_.handle()));
  }
}

void CudaBackend::Fetch(Matrix values, std::span<float> host) {
  check_.Fetch(values, host);
  if (host.empty()) return;
  if (steps_.empty()) steps_.emplace_back();
  HostCopy& copy = copies_[begun_ % kMaxRunning];
  const auto queue = [&]() -> absl::Status {
    BATON_RETURN_IF_ERROR(copy.Reserve(host.size_bytes()));
    BATON_RETURN_IF_ERROR(
        cuda::CopyToHost(copy.memory->data(), values.data, host.size_bytes(), stream_.handle()));
    return copy.copied.Record(stream_.handle());
  };
  const absl::Status queued = queue();
  Note(queued);
  if (!queued.ok()) return;
  steps_.back().copy = &copy;
  steps_.back().fetched = host;
}

void CudaBackend::Sample(Matrix logits, std::span<const SampleRow> rows,
                         std::span<SampledToken> results) {
  check_.Sample(logits, rows, results);
  if (rows.empty()) return;
  if (steps_.empty()) steps_.emplace_back();
  const auto run = [&]() -> absl::Status {
    BATON_RETURN_IF_ERROR(PrepareSampling(static_cast<int32_t>(logits.cols),
                                          static_cast<int32_t>(logits.rows), /*context=*/0));
    BATON_RETURN_IF_ERROR(sampler_->Stage(rows));
    BATON_RETURN_IF_ERROR(sampler_->Launch(logits));
    return sampler_->Finish(logits);
  };
  const absl::Status queued = run();
  Note(queued);
  if (queued.ok()) steps_.back().results = results;
}

}  // namespace baton::kernels
