#include "kernels/cpu/amx_gemm.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cpu/parallel.h"
#include "kernels/float_convert.h"
#include "kernels/host_memory.h"

namespace baton::kernels::cpu {
namespace {

constexpr int64_t kMaxRows = 512;                    // that share a reading of the weight
constexpr int64_t kGroupBytes = int64_t{512} << 10;  // of bands that stay in a cache

int64_t StepsOf(int64_t in) { return (in + kAmxDepth - 1) / kAmxDepth; }

// The widest group of bands that fits the cache and leaves every thread some parts.
int64_t GroupFor(AmxProduct product, int64_t threads) {
  product.group = std::clamp<int64_t>(kGroupBytes / product.band_bytes(), 1, kAmxGroup);
  while (product.group > 1 && product.parts() < 4 * threads) --product.group;
  return product.group;
}

class AmxWeight final : public PackedWeight {
 public:
  AmxWeight(int64_t out, int64_t in, std::unique_ptr<Buffer> data)
      : out_(out), in_(in), data_(std::move(data)) {}
  int64_t out() const override { return out_; }
  int64_t in() const override { return in_; }
  size_t bytes() const override { return data_->size(); }
  int64_t steps() const { return StepsOf(in_); }
  int64_t bands() const { return (out_ + kAmxBand - 1) / kAmxBand; }
  std::byte* band(int64_t index) const {
    return static_cast<std::byte*>(data_->data()) + index * steps() * kAmxStepBytes;
  }
  // The pair of elements 32 * step and 32 * step + 1 of output `row`; further pairs of the step
  // follow kTileRowBytes apart.
  std::byte* pairs(int64_t row, int64_t step) const {
    return band(row / kAmxBand) + step * kAmxStepBytes + row % kAmxBand / kTileRows * kTileBytes +
           row % kTileRows * 4;
  }

 private:
  int64_t out_;
  int64_t in_;
  std::unique_ptr<Buffer> data_;
};

constexpr char kBandLayout[] = "bands of 32, version 1";

int64_t BandBytes(int64_t out, int64_t in) {
  return (out + kAmxBand - 1) / kAmxBand * StepsOf(in) * kAmxStepBytes;
}

std::string BandForm(int64_t out, int64_t in) {
  return absl::StrCat(kBandLayout, ", ", out, " x ", in);
}

// to [32] = elements [first, first + count) of the tensor in bf16, then zeros.
void LoadStep(const HostTensor& from, int64_t first, int64_t count, uint16_t* to) {
  if (from.dtype == DType::kBF16 && count == kAmxDepth) {
    std::memcpy(to, static_cast<const uint16_t*>(from.data) + first, kTileRowBytes);
    return;
  }
  if (from.dtype == DType::kBF16) {
    std::memcpy(to, static_cast<const uint16_t*>(from.data) + first,
                static_cast<size_t>(count) * sizeof(uint16_t));
  } else {
    for (int64_t i = 0; i < count; ++i) {
      to[i] = Bf16FromFloat(LoadElement(from.data, from.dtype, first + i));
    }
  }
  std::fill(to + count, to + kAmxDepth, uint16_t{0});
}

void PackBand(const HostTensor& weight, const Shard& part, int64_t band, AmxWeight& to) {
  alignas(64) uint16_t values[kAmxDepth];
  for (int64_t row = band * kAmxBand; row < (band + 1) * kAmxBand; ++row) {
    const int64_t source = (part.out_begin + row) * weight.cols + part.in_begin;
    for (int64_t step = 0; step < to.steps(); ++step) {
      const int64_t done = step * kAmxDepth;
      const int64_t count = row < to.out() ? std::min(kAmxDepth, to.in() - done) : 0;
      LoadStep(weight, source + done, count, values);
      std::byte* const pairs = to.pairs(row, step);
      for (int64_t pair = 0; pair < kAmxDepth / 2; ++pair) {
        std::memcpy(pairs + pair * kTileRowBytes, values + 2 * pair, 4);
      }
    }
  }
}

AmxRows RowsInPlace(Matrix in) {
  const int64_t stride = in.cols * static_cast<int64_t>(sizeof(uint16_t));
  return {.data = static_cast<const std::byte*>(in.data),
          .count = in.rows,
          .row_stride = stride,
          .step_stride = kTileRowBytes,
          .tile_stride = kTileRows * stride};
}

// Lays rows out as tiles, in which what is beyond the rows' length is 0.
AmxRows RowsAsTiles(Matrix in, std::byte* to, int threads) {
  const int64_t steps = StepsOf(in.cols);
  const AmxRows rows = {.data = to,
                        .count = in.rows,
                        .row_stride = kTileRowBytes,
                        .step_stride = kTileBytes,
                        .tile_stride = steps * kTileBytes};
  const HostTensor from = {in.data, in.dtype, in.rows, in.cols};
  ParallelRanges(threads, in.rows, 8, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::byte* const first =
          to + row / kTileRows * rows.tile_stride + row % kTileRows * kTileRowBytes;
      for (int64_t step = 0; step < steps; ++step) {
        const int64_t done = step * kAmxDepth;
        LoadStep(from, row * in.cols + done, std::min(kAmxDepth, in.cols - done),
                 reinterpret_cast<uint16_t*>(first + step * kTileBytes));
      }
    }
  });
  return rows;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedWeight>> AmxGemm::Pack(const HostTensor& weight,
                                                            const Shard& part) {
  const int64_t out = part.out_end - part.out_begin;
  const int64_t in = part.in_end - part.in_begin;
  const int64_t bands = (out + kAmxBand - 1) / kAmxBand;
  BATON_ASSIGN_OR_RETURN(auto data, AllocateHost(static_cast<size_t>(BandBytes(out, in))));
  auto packed = std::make_unique<AmxWeight>(out, in, std::move(data));
  ParallelItems(threads_, bands, [&](int64_t band, int) { PackBand(weight, part, band, *packed); });
  return packed;
}

absl::Status AmxGemm::Reserve(int64_t rows, int64_t in) {
  const int64_t tiles = (std::min(rows, kMaxRows) + kTileRows - 1) / kTileRows;
  const auto bytes = static_cast<size_t>(tiles * StepsOf(in) * kTileBytes);
  if (tiles_ != nullptr && tiles_->size() >= bytes) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(tiles_, AllocateHost(bytes));
  return absl::OkStatus();
}

absl::Status AmxGemm::Prepare(std::span<const MatMulUse> uses) {
  for (const MatMulUse& use : uses) {
    BATON_RETURN_IF_ERROR(Reserve(use.max_rows, use.weight->in()));
  }
  return absl::OkStatus();
}

void AmxGemm::Run(const PackedWeight& weight, Matrix in, Matrix out,
                  const MatMulEpilogue& epilogue) {
  const auto& packed = static_cast<const AmxWeight&>(weight);
  for (int64_t row = 0; row < in.rows; row += kMaxRows) {
    const int64_t count = std::min(kMaxRows, in.rows - row);
    const Matrix part = Matrix::Dense(in.row(row), in.dtype, count, in.cols);
    AmxProduct product = {
        .bands = packed.band(0),
        .num_bands = packed.bands(),
        .steps = packed.steps(),
        .output = OutputOf(Matrix::Dense(out.row(row), out.dtype, count, out.cols), epilogue)};
    if (count <= kAmxBlock && in.cols % kAmxDepth == 0) {
      product.rows = RowsInPlace(part);
    } else {
      const absl::Status reserved = Reserve(count, in.cols);
      BATON_CHECK(reserved.ok()) << reserved.ToString();
      product.rows = RowsAsTiles(part, static_cast<std::byte*>(tiles_->data()), threads_);
    }
    product.group = GroupFor(product, threads_);
    ParallelRanges(threads_, product.parts(), 1,
                   [&](int64_t begin, int64_t end) { RunAmxParts(product, begin, end); });
  }
}

void AmxGemm::UnpackRow(const PackedWeight& weight, int64_t row, Matrix out, int64_t out_row) {
  const auto& packed = static_cast<const AmxWeight&>(weight);
  float* const to = static_cast<float*>(out.row(out_row));
  for (int64_t k = 0; k < packed.in(); ++k) {
    uint16_t value = 0;
    const int64_t pair = k % kAmxDepth / 2;
    std::memcpy(&value, packed.pairs(row, k / kAmxDepth) + pair * kTileRowBytes + k % 2 * 2, 2);
    to[k] = FloatFromBf16(value);
  }
}

std::string AmxGemm::layout() const { return kBandLayout; }

PackedImage AmxGemm::ImageOf(const PackedWeight& weight) const {
  const auto& packed = static_cast<const AmxWeight&>(weight);
  return {.form = BandForm(packed.out(), packed.in()), .parts = {{packed.band(0), packed.bytes()}}};
}

absl::StatusOr<std::unique_ptr<PackedWeight>> AmxGemm::FromImage(const PackedImage& image,
                                                                 int64_t out, int64_t in) const {
  const auto bytes = static_cast<size_t>(BandBytes(out, in));
  BATON_RETURN_IF_ERROR(CheckImage(image, BandForm(out, in), bytes));
  return std::make_unique<AmxWeight>(out, in, ViewHost(image.parts[0]));
}

}  // namespace baton::kernels::cpu
