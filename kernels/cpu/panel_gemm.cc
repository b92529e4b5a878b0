#include "kernels/cpu/panel_gemm.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cpu/parallel.h"
#include "kernels/float_convert.h"
#include "kernels/host_memory.h"

namespace baton::kernels::cpu {
namespace {

class PanelWeight final : public PackedWeight {
 public:
  PanelWeight(int64_t out, int64_t in, DType dtype, std::unique_ptr<Buffer> data)
      : out_(out), in_(in), dtype_(dtype), data_(std::move(data)) {}
  int64_t out() const override { return out_; }
  int64_t in() const override { return in_; }
  size_t bytes() const override { return data_->size(); }
  DType dtype() const { return dtype_; }
  int64_t pairs() const { return (out_ + kPanelPairWidth - 1) / kPanelPairWidth; }
  void* pair(int64_t index) const {
    return static_cast<std::byte*>(data_->data()) +
           static_cast<size_t>(index * in_ * kPanelPairWidth) * SizeOf(dtype_);
  }
  // Of a pair, the element of column `k` of its output `lane`.
  int64_t Index(int64_t k, int64_t lane) const {
    const bool words = SizeOf(dtype_) == 2;
    return k * kPanelPairWidth + (words ? lane % kPanelWidth * 2 + lane / kPanelWidth : lane);
  }

 private:
  int64_t out_;
  int64_t in_;
  DType dtype_;
  std::unique_ptr<Buffer> data_;
};

constexpr char kPanelLayout[] = "pairs of panels of 16, version 1";

int64_t PaddedOut(int64_t out) {
  return (out + kPanelPairWidth - 1) / kPanelPairWidth * kPanelPairWidth;
}

std::string PanelForm(int64_t out, int64_t in, DType dtype) {
  return absl::StrCat(kPanelLayout, ", ", out, " x ", in, " of ", std::string(Name(dtype)));
}

void PackPair(const HostTensor& weight, const Shard& part, int64_t pair, PanelWeight& to) {
  const int64_t first = pair * kPanelPairWidth;
  for (int64_t lane = 0; lane < kPanelPairWidth; ++lane) {
    const int64_t row = first + lane;
    const int64_t source = (part.out_begin + row) * weight.cols + part.in_begin;
    for (int64_t k = 0; k < to.in(); ++k) {
      const float value =
          row < to.out() ? LoadElement(weight.data, weight.dtype, source + k) : 0.0f;
      StoreElement(to.pair(pair), to.dtype(), to.Index(k, lane), value);
    }
  }
}

}  // namespace

PanelOutput OutputOf(Matrix out, const MatMulEpilogue& epilogue) {
  return {
      .out = out,
      .bias = epilogue.bias != nullptr ? static_cast<const float*>(epilogue.bias->data()) : nullptr,
      .accumulate = epilogue.accumulate};
}

PanelGemm::PanelGemm(Isa isa, DType compute_dtype, int threads)
    : kernel_(PanelKernelOf(isa)), compute_dtype_(compute_dtype), threads_(threads) {}

absl::StatusOr<std::unique_ptr<PackedWeight>> PanelGemm::Pack(const HostTensor& weight,
                                                              const Shard& part) {
  const int64_t out = part.out_end - part.out_begin;
  const int64_t in = part.in_end - part.in_begin;
  BATON_ASSIGN_OR_RETURN(auto data, AllocateHost(PaddedOut(out) * in * SizeOf(compute_dtype_)));
  auto packed = std::make_unique<PanelWeight>(out, in, compute_dtype_, std::move(data));
  ParallelItems(threads_, packed->pairs(),
                [&](int64_t pair, int) { PackPair(weight, part, pair, *packed); });
  return packed;
}

void PanelGemm::Reserve(int64_t in) {
  if (in <= rows_capacity_) return;
  auto buffer = AllocateHost(kPanelRows * in * sizeof(float));
  BATON_CHECK(buffer.ok()) << buffer.status().ToString();
  rows_ = std::move(buffer).value();
  rows_capacity_ = in;
}

absl::Status PanelGemm::Prepare(std::span<const MatMulUse> uses) {
  for (const MatMulUse& use : uses) Reserve(use.weight->in());
  return absl::OkStatus();
}

void PanelGemm::RunRows(const PackedWeight& weight, Matrix in, Matrix out,
                        const MatMulEpilogue& epilogue) {
  const auto& packed = static_cast<const PanelWeight&>(weight);
  float* rows = static_cast<float*>(rows_->data());
  ParallelRanges(threads_, in.cols, 256,
                 [&](int64_t begin, int64_t end) { kernel_.pack_rows(in, begin, end, rows); });
  const int64_t multiply_adds = in.rows * in.cols * out.cols;
  ParallelShares(threads_, packed.pairs(), multiply_adds, [&](int64_t begin, int64_t end) {
    for (int64_t pair = begin; pair < end; ++pair) {
      kernel_.run({.rows = rows,
                   .count = in.rows,
                   .in = packed.in(),
                   .pair = packed.pair(pair),
                   .dtype = packed.dtype(),
                   .output = OutputOf(out, epilogue),
                   .first_column = pair * kPanelPairWidth});
    }
  });
}

void PanelGemm::Run(const PackedWeight& weight, Matrix in, Matrix out,
                    const MatMulEpilogue& epilogue) {
  Reserve(weight.in());
  for (int64_t row = 0; row < in.rows; row += kPanelRows) {
    const int64_t count = std::min(kPanelRows, in.rows - row);
    RunRows(weight, Matrix::Dense(in.row(row), in.dtype, count, in.cols),
            Matrix::Dense(out.row(row), out.dtype, count, out.cols), epilogue);
  }
}

void PanelGemm::UnpackRow(const PackedWeight& weight, int64_t row, Matrix out, int64_t out_row) {
  const auto& packed = static_cast<const PanelWeight&>(weight);
  const void* pair = packed.pair(row / kPanelPairWidth);
  float* to = static_cast<float*>(out.row(out_row));
  for (int64_t k = 0; k < packed.in(); ++k) {
    to[k] = LoadElement(pair, packed.dtype(), packed.Index(k, row % kPanelPairWidth));
  }
}

std::string PanelGemm::layout() const { return kPanelLayout; }

PackedImage PanelGemm::ImageOf(const PackedWeight& weight) const {
  const auto& packed = static_cast<const PanelWeight&>(weight);
  return {.form = PanelForm(packed.out(), packed.in(), packed.dtype()),
          .parts = {{static_cast<const std::byte*>(packed.pair(0)), packed.bytes()}}};
}

absl::StatusOr<std::unique_ptr<PackedWeight>> PanelGemm::FromImage(const PackedImage& image,
                                                                   int64_t out, int64_t in) const {
  const auto bytes = static_cast<size_t>(PaddedOut(out) * in) * SizeOf(compute_dtype_);
  BATON_RETURN_IF_ERROR(CheckImage(image, PanelForm(out, in, compute_dtype_), bytes));
  return std::make_unique<PanelWeight>(out, in, compute_dtype_, ViewHost(image.parts[0]));
}

}  // namespace baton::kernels::cpu
