#include <algorithm>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cuda/attention/flashinfer_attention.h"
#include "kernels/cuda/cuda_backend.h"
#include "kernels/cuda/device_limits.h"
#include "kernels/cuda/graph/row_buckets.h"
#include "kernels/gpu_needs.h"

namespace baton::kernels {
namespace {

// What memory is filled with for timing. The device would be faster with zeros than it will be, so
// these are other small numbers.
constexpr int kTimedByte = 0x3c;
constexpr int kMaxRows = 65535;  // the second dimension of a grid

// The most rows of which a product of this shape is asked for.
int64_t MostRows(const cuda::MatMulKey& shape, const cuda::Product& product) {
  return shape.fp8 ? cuda::Fp8Ladder::MostRows(product.max_rows)
                   : cuda::RowBucket(product.max_rows);
}

// What a shape is timed with: its weights in turn; for integers the workspace alone that they are
// widened into, because a weight that was just widened lies partly in the cache, as there.
std::vector<cuda::MatMulOperands> OperandsOf(const cuda::Product& product, const void* workspace,
                                             const cuda::MatMulOperands& common) {
  std::vector<cuda::MatMulOperands> operands;
  const auto add = [&](const void* weight, const float* scales) {
    cuda::MatMulOperands& made = operands.emplace_back(common);
    made.weight = weight;
    made.bias = weight;  // any values do
    made.weight_scales = scales;
  };
  for (const cuda::DeviceWeight* weight : product.weights) add(weight->data(), weight->scales());
  if (operands.empty()) add(workspace, nullptr);
  return operands;
}

}  // namespace

absl::Status CudaBackend::PrepareIntegers(const StepUses& uses) {
  for (const MatMulUse& use : uses.products) {
    if (!use.weight->quantized() || !cuda::QuantizedProducts::Widens(use.max_rows)) continue;
    BATON_RETURN_IF_ERROR(integer_products_.Reserve(use.weight->out(), use.weight->in()).status());
  }
  if (integer_products_.workspace_bytes() == 0) return absl::OkStatus();
  return cuda::Fill(integer_products_.workspace(), kTimedByte, integer_products_.workspace_bytes(),
                    stream_.handle());
}

// Each shape is timed once per rung, with the weights of all layers in turn.
absl::Status CudaBackend::PrepareProducts(const StepUses& uses) {
  const auto products = cuda::GroupProducts(uses.products, info_.compute_dtype);
  size_t in_bytes = 0;
  size_t out_bytes = 0;
  for (const auto& [group, product] : products) {
    const cuda::MatMulKey& key = group.shape;
    const int64_t rows = MostRows(key, product);
    // Codes of fp8 and their scales fit as well: codes are shorter by more than scales take.
    const auto in = static_cast<size_t>(rows * key.in) * SizeOf(info_.compute_dtype);
    in_bytes = std::max(in_bytes, in + static_cast<size_t>(rows) * sizeof(float));
    out_bytes = std::max(out_bytes, static_cast<size_t>(rows * key.out) * SizeOf(key.out_dtype));
  }
  BATON_ASSIGN_OR_RETURN(auto in, Allocate(in_bytes));
  BATON_ASSIGN_OR_RETURN(auto out, Allocate(out_bytes));
  BATON_RETURN_IF_ERROR(cuda::Fill(in->data(), kTimedByte, in_bytes, stream_.handle()));
  BATON_RETURN_IF_ERROR(Zero(*out));
  for (const auto& [group, product] : products) {
    const auto operands = OperandsOf(
        product, integer_products_.workspace(),
        {.in = in->data(), .out = out->data(), .in_scales = static_cast<const float*>(in->data())});
    for (const int64_t rows : cuda::RowBuckets(product.max_rows)) {
      if (group.integers && !cuda::QuantizedProducts::Widens(rows)) continue;
      BATON_RETURN_IF_ERROR(PrepareRung(group, rows, MostRows(group.shape, product), operands));
    }
  }
  return stream_.Synchronize();
}

absl::Status CudaBackend::PrepareRung(const cuda::ProductKey& group, int64_t rows, int64_t most,
                                      std::span<const cuda::MatMulOperands> operands) {
  const cuda::MatMulKey& shape = group.shape;
  Collective* const chooses = group.part ? nullptr : collective_;
  const auto prepare = [&](const cuda::MatMulKey& key) {
    return matmul_->Prepare(key, operands, chooses);
  };
  if (shape.fp8) {
    BATON_ASSIGN_OR_RETURN(const int64_t rung,
                           fp8_products_->ladder().Serve(shape, rows, most, prepare));
    return fp8_products_->Reserve(rung, shape.in, shape.out).status();
  }
  cuda::MatMulKey key = shape;
  key.rows = rows;
  return prepare(key);
}

absl::Status CudaBackend::PrepareAttention(const StepUses& uses) {
  const DType dtype = info_.compute_dtype;
  flashinfer_.clear();
  size_t out_bytes = 0;
  size_t lse_bytes = 0;
  for (const AttentionShape& shape : uses.attentions) {
    if (!cuda::FlashInferHas(dtype, dtype, shape.head_dim)) continue;
    FlashInferShape& flashinfer = flashinfer_.emplace_back();
    flashinfer.shape = shape;
    const size_t row = static_cast<size_t>(shape.q_heads) * shape.head_dim * SizeOf(dtype);
    // There is room for at least one part of each row that a step may have.
    flashinfer.max_partials =
        std::max<int64_t>(static_cast<int64_t>(kAttentionPartialBytes / row), uses.max_tokens);
    const auto partials = static_cast<size_t>(flashinfer.max_partials);
    out_bytes = std::max(out_bytes, partials * row);
    lse_bytes = std::max(lse_bytes, partials * static_cast<size_t>(shape.q_heads) * sizeof(float));
  }
  if (flashinfer_.empty()) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(partial_out_, cuda::DeviceMemory::Allocate(out_bytes));
  BATON_ASSIGN_OR_RETURN(partial_lse_, cuda::DeviceMemory::Allocate(lse_bytes));
  return absl::OkStatus();
}

absl::Status CudaBackend::SetRope(std::span<const float> inv_freq) {
  if (std::equal(inv_freq.begin(), inv_freq.end(), inv_freq_.begin(), inv_freq_.end())) {
    return absl::OkStatus();
  }
  const size_t bytes = inv_freq.size_bytes();
  if (inv_freq_device_ == nullptr || inv_freq_device_->size() < bytes) {
    BATON_ASSIGN_OR_RETURN(inv_freq_device_, cuda::DeviceMemory::Allocate(bytes));
    graphs_.Clear();
  }
  inv_freq_.assign(inv_freq.begin(), inv_freq.end());
  return Upload(inv_freq_.data(), bytes, inv_freq_device_->data());
}

absl::Status CudaBackend::PrepareSampling(int32_t vocab, int32_t rows, int32_t context) {
  const cuda::SamplerLimits had = sampler_limits_;
  const cuda::SamplerLimits needed = {
      .vocab = vocab,
      .rows = std::max(rows, had.rows),
      .list_capacity = std::max(SamplerListNumbers(vocab, context), had.list_capacity)};
  if (needed.vocab == had.vocab && needed.rows == had.rows &&
      needed.list_capacity == had.list_capacity) {
    return absl::OkStatus();
  }
  BATON_CHECK(sampler_ == nullptr || steps_.size() <= 1)
      << "a sampler of " << had.rows << " rows is outgrown while two steps run";
  // Captured steps read what the slots of the old sampler drew.
  graphs_.Clear();
  sampler_.reset();
  sampler_limits_ = {};
  BATON_ASSIGN_OR_RETURN(sampler_, cuda::CudaSampler::Create(needed, stream_.handle()));
  sampler_limits_ = needed;
  return absl::OkStatus();
}

absl::Status CudaBackend::Prepare(const StepUses& uses) {
  if (std::max(uses.max_tokens, uses.max_samples) > kMaxRows) {
    return absl::InvalidArgumentError(absl::StrCat(
        "steps of ", uses.max_tokens, " tokens and ", uses.max_samples, " sequences on a GPU; ",
        "expected at most ", kMaxRows, ": lower --max-num-batched-tokens or --max-num-seqs"));
  }
  BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_.index));
  BATON_RETURN_IF_ERROR(stream_.Synchronize());
  uploader_.reset();
  graphs_.Clear();
  BATON_RETURN_IF_ERROR(PrepareIntegers(uses));
  if (!uses.products.empty()) BATON_RETURN_IF_ERROR(PrepareProducts(uses));
  BATON_RETURN_IF_ERROR(PrepareAttention(uses));
  if (uses.rope.has_value()) BATON_RETURN_IF_ERROR(SetRope(uses.rope->inv_freq));
  if (uses.vocab > 0) {
    BATON_RETURN_IF_ERROR(PrepareSampling(uses.vocab, uses.max_samples, uses.max_context));
  }
  for (HostCopy& copy : copies_) {
    if (uses.fetched == 0) break;
    BATON_RETURN_IF_ERROR(copy.Reserve(static_cast<size_t>(uses.fetched) * sizeof(float)));
  }
  const int sequences = uses.max_sequences > 0 ? uses.max_sequences : uses.max_samples;
  max_capture_rows_ =
      std::min({uses.max_tokens, uses.max_samples, sequences, info_.max_captured_rows});
  return absl::OkStatus();
}

absl::StatusOr<MachineLimits> CudaBackend::MeasureLimits() {
  BATON_RETURN_IF_ERROR(cuda::SelectDevice(device_.index));
  return cuda::MeasureDeviceLimits(info_.compute_dtype, fp8_, stream_.handle());
}

}  // namespace baton::kernels
