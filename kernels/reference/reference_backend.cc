#include "kernels/reference/reference_backend.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "common/base/status.h"
#include "kernels/float_convert.h"
#include "kernels/host_memory.h"
#include "kernels/quantized_tensor.h"
#include "kernels/reference/attention.h"
#include "kernels/reference/quantized_product.h"
#include "kernels/reference/sample.h"

namespace baton::kernels {
namespace {

class DenseWeight final : public PackedWeight {
 public:
  // Of a part of a weight, for the caller to fill.
  static absl::StatusOr<std::unique_ptr<DenseWeight>> Make(const Shard& part, bool quantized) {
    const int64_t out = part.out_end - part.out_begin;
    const int64_t in = part.in_end - part.in_begin;
    BATON_ASSIGN_OR_RETURN(auto data, AllocateHost(out * in * sizeof(float)));
    return std::unique_ptr<DenseWeight>(new DenseWeight(out, in, std::move(data), quantized));
  }

  int64_t out() const override { return out_; }
  int64_t in() const override { return in_; }
  size_t bytes() const override { return data_->size(); }
  bool quantized() const override { return quantized_; }
  const float* row(int64_t index) const {
    return static_cast<const float*>(data_->data()) + index * in_;
  }
  float* row(int64_t index) { return static_cast<float*>(data_->data()) + index * in_; }

 private:
  DenseWeight(int64_t out, int64_t in, std::unique_ptr<Buffer> data, bool quantized)
      : out_(out), in_(in), data_(std::move(data)), quantized_(quantized) {}

  int64_t out_;
  int64_t in_;
  std::unique_ptr<Buffer> data_;  // fp32 [out, in]; what was not quantized in the compute dtype
  bool quantized_;
};

class IntegerWeight final : public PackedWeight {
 public:
  IntegerWeight(const QuantizedTensor& weight, const Shard& part, int64_t group)
      : out_(part.out_end - part.out_begin),
        in_(part.in_end - part.in_begin),
        product_(weight, part, group) {}

  int64_t out() const override { return out_; }
  int64_t in() const override { return in_; }
  size_t bytes() const override { return static_cast<size_t>(out_ * in_) * sizeof(int16_t); }
  bool quantized() const override { return true; }
  const reference::QuantizedProduct& product() const { return product_; }

 private:
  int64_t out_;
  int64_t in_;
  reference::QuantizedProduct product_;
};

std::vector<float> LoadRow(Matrix in, int64_t row) {
  std::vector<float> x(static_cast<size_t>(in.cols));
  for (int64_t k = 0; k < in.cols; ++k) x[k] = LoadElement(in.row(row), in.dtype, k);
  return x;
}

// Rounds after every addition, as host backends do.
void MultiplyIntegers(const reference::QuantizedProduct& product, Matrix in, Matrix out,
                      const float* bias, bool accumulate) {
  std::vector<float> values(static_cast<size_t>(out.cols));
  for (int64_t row = 0; row < in.rows; ++row) {
    product.Multiply(LoadRow(in, row), values);
    for (int64_t n = 0; n < out.cols; ++n) {
      float value = values[n];
      if (bias != nullptr) value += bias[n];
      if (accumulate) value += LoadElement(out.row(row), out.dtype, n);
      StoreElement(out.row(row), out.dtype, n, value);
    }
  }
}

float Silu(float x) { return static_cast<float>(x / (1.0 + std::exp(-static_cast<double>(x)))); }

}  // namespace

ReferenceBackend::ReferenceBackend(DType compute_dtype, Collective* collective, bool exact_inputs,
                                   bool in_pairs)
    : HostBackend({.device = Device::kReference,
                   .isa = "scalar",
                   .matmul = "scalar",
                   .threads = 1,
                   .compute_dtype = compute_dtype,
                   .attention_version = in_pairs ? 2 : 1,
                   .ranks = collective != nullptr ? collective->size() : 1,
                   .rounds_inputs = !exact_inputs},
                  collective) {}

absl::StatusOr<std::unique_ptr<PackedWeight>> ReferenceBackend::Pack(const HostTensor& weight,
                                                                     const Shard& shard) {
  BATON_ASSIGN_OR_RETURN(const Shard part, ResolveShard(weight, shard));
  BATON_ASSIGN_OR_RETURN(auto packed, DenseWeight::Make(part, /*quantized=*/false));
  for (int64_t n = 0; n < packed->out(); ++n) {
    for (int64_t k = 0; k < packed->in(); ++k) {
      const int64_t index = (part.out_begin + n) * weight.cols + part.in_begin + k;
      packed->row(n)[k] =
          RoundTo(info().compute_dtype, LoadElement(weight.data, weight.dtype, index));
    }
  }
  return packed;
}

absl::StatusOr<std::unique_ptr<PackedWeight>> ReferenceBackend::PackQuantized(
    const QuantizedTensor& weight, const Shard& shard) {
  BATON_ASSIGN_OR_RETURN(const Shard part, ResolveShard(weight, shard));
  BATON_ASSIGN_OR_RETURN(const int64_t group, GroupOfShard(weight, part));
  if (info().rounds_inputs) return std::make_unique<IntegerWeight>(weight, part, group);
  BATON_ASSIGN_OR_RETURN(auto packed, DenseWeight::Make(part, /*quantized=*/true));
  for (int64_t n = 0; n < packed->out(); ++n) {
    for (int64_t k = 0; k < packed->in(); ++k) {
      const int64_t col = part.in_begin + k;
      const int64_t input = weight.input_of != nullptr ? weight.input_of[col] : k;
      packed->row(n)[input] = weight.at(part.out_begin + n, col);
    }
  }
  return packed;
}

absl::Status ReferenceBackend::Prepare(const StepUses& /*uses*/) { return absl::OkStatus(); }

void ReferenceBackend::Embed(const Buffer& table, Matrix out) {
  CheckTokens(layout().tokens, check().Embed(table, out));
  for (int64_t row = 0; row < out.rows; ++row) {
    const int64_t first = layout().tokens[row] * out.cols;
    for (int64_t i = 0; i < out.cols; ++i) {
      const float value = LoadElement(table.data(), info().compute_dtype, first + i);
      StoreElement(out.row(row), out.dtype, i, value);
    }
  }
}

void ReferenceBackend::EmbedFromPacked(const PackedWeight& weight, Matrix out) {
  check().EmbedFromPacked(weight, out);
  CheckTokens(layout().tokens, weight.out());
  const auto& dense = static_cast<const DenseWeight&>(weight);
  for (int64_t row = 0; row < out.rows; ++row) {
    for (int64_t i = 0; i < out.cols; ++i) {
      StoreElement(out.row(row), out.dtype, i, dense.row(layout().tokens[row])[i]);
    }
  }
}

void ReferenceBackend::RmsNorm(Matrix in, const Buffer& weight, float eps, Matrix out) {
  check().RmsNorm(in, weight, out);
  const float* scale = static_cast<const float*>(weight.data());
  for (int64_t row = 0; row < in.rows; ++row) {
    double squares = 0;
    for (int64_t i = 0; i < in.cols; ++i) {
      const double x = LoadElement(in.row(row), in.dtype, i);
      squares += x * x;
    }
    const double inverse = 1.0 / std::sqrt(squares / static_cast<double>(in.cols) + eps);
    for (int64_t i = 0; i < in.cols; ++i) {
      const double x = LoadElement(in.row(row), in.dtype, i);
      StoreElement(out.row(row), out.dtype, i, static_cast<float>(x * inverse * scale[i]));
    }
  }
}

void ReferenceBackend::MatMul(const PackedWeight& weight, Matrix in, Matrix out,
                              const MatMulEpilogue& epilogue) {
  check().MatMul(weight, in, out, epilogue);
  const float* bias =
      epilogue.bias != nullptr ? static_cast<const float*>(epilogue.bias->data()) : nullptr;
  if (weight.quantized() && info().rounds_inputs) {
    const auto& integers = static_cast<const IntegerWeight&>(weight);
    return MultiplyIntegers(integers.product(), in, out, bias, epilogue.accumulate);
  }
  const auto& dense = static_cast<const DenseWeight&>(weight);
  for (int64_t row = 0; row < in.rows; ++row) {
    const std::vector<float> x = LoadRow(in, row);
    for (int64_t n = 0; n < out.cols; ++n) {
      double sum = bias != nullptr ? bias[n] : 0.0;
      if (epilogue.accumulate) sum += LoadElement(out.row(row), out.dtype, n);
      const float* w = dense.row(n);
      for (int64_t k = 0; k < in.cols; ++k) sum += static_cast<double>(x[k]) * w[k];
      StoreElement(out.row(row), out.dtype, n, static_cast<float>(sum));
    }
  }
}

void ReferenceBackend::RopeAndStoreKv(Matrix qkv, int layer, const AttentionShape& shape,
                                      const RopeShape& rope, const QkNorm& norm) {
  check().RopeAndStoreKv(qkv, layer, shape, rope, norm);
  reference::RopeAndStoreKv(layout(), kv(), qkv, layer, shape, rope, norm);
}

void ReferenceBackend::PagedAttention(Matrix qkv, int layer, const AttentionShape& shape,
                                      Matrix out) {
  check().PagedAttention(qkv, layer, shape, out);
  const bool in_pairs = info().attention_version == 2 && qkv.dtype == DType::kBF16 &&
                        kv().layout.dtype != DType::kF32;
  reference::PagedAttention(layout(), kv(), qkv, layer, shape, in_pairs, out);
}

void ReferenceBackend::SiluMul(Matrix gate_up, Matrix out) {
  check().SiluMul(gate_up, out);
  for (int64_t row = 0; row < out.rows; ++row) {
    for (int64_t i = 0; i < out.cols; ++i) {
      const float gate = LoadElement(gate_up.row(row), gate_up.dtype, i);
      const float up = LoadElement(gate_up.row(row), gate_up.dtype, out.cols + i);
      StoreElement(out.row(row), out.dtype, i, Silu(gate) * up);
    }
  }
}

void ReferenceBackend::Sample(Matrix logits, std::span<const SampleRow> rows,
                              std::span<SampledToken> results) {
  check().Sample(logits, rows, results);
  SampleProcessors processors;
  for (size_t i = 0; i < rows.size(); ++i) {
    const std::span<const float> raw(static_cast<const float*>(logits.row(i)), logits.cols);
    reference::SampleRowInto(rows[i], raw, processors, results[i]);
  }
}

}  // namespace baton::kernels
