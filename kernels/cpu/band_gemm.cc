#include "kernels/cpu/band_gemm.h"

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

constexpr int64_t kGroupBytes = int64_t{512} << 10;  // of bands that stay in a cache

int64_t StepsOf(int64_t in) { return (in + kBandDepth - 1) / kBandDepth; }

// The widest group of bands that fits the cache and leaves every thread some parts.
int64_t GroupFor(BandProduct product, int64_t threads) {
  product.group = std::clamp<int64_t>(kGroupBytes / product.band_bytes(), 1, kBandGroup);
  while (product.group > 1 && product.parts() < 4 * threads) --product.group;
  return product.group;
}

class BandWeight final : public PackedWeight {
 public:
  BandWeight(int64_t out, int64_t in, std::unique_ptr<Buffer> data)
      : out_(out), in_(in), data_(std::move(data)) {}
  int64_t out() const override { return out_; }
  int64_t in() const override { return in_; }
  size_t bytes() const override { return data_->size(); }
  int64_t steps() const { return StepsOf(in_); }
  int64_t bands() const { return (out_ + kBandWidth - 1) / kBandWidth; }
  std::byte* band(int64_t index) const {
    return static_cast<std::byte*>(data_->data()) + index * steps() * kBandStepBytes;
  }
  // The first pair of a step of output `row`; the others follow.
  std::byte* pairs(const BandKernel& kernel, int64_t row, int64_t step) const {
    const int64_t output = row % kBandWidth;
    return band(row / kBandWidth) + step * kBandStepBytes +
           output / kPanelWidth * kernel.half_stride + output % kPanelWidth * 4;
  }

 private:
  int64_t out_;
  int64_t in_;
  std::unique_ptr<Buffer> data_;
};

int64_t BandBytes(int64_t out, int64_t in) {
  return (out + kBandWidth - 1) / kBandWidth * StepsOf(in) * kBandStepBytes;
}

// to [32] = elements [first, first + count) of the tensor in bf16, then zeros.
void LoadStep(const HostTensor& from, int64_t first, int64_t count, uint16_t* to) {
  if (from.dtype == DType::kBF16 && count == kBandDepth) {
    std::memcpy(to, static_cast<const uint16_t*>(from.data) + first, kBandLineBytes);
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
  std::fill(to + count, to + kBandDepth, uint16_t{0});
}

void PackBand(const HostTensor& weight, const Shard& part, const BandKernel& kernel, int64_t band,
              BandWeight& to) {
  alignas(64) uint16_t values[kBandDepth];
  for (int64_t row = band * kBandWidth; row < (band + 1) * kBandWidth; ++row) {
    const int64_t source = (part.out_begin + row) * weight.cols + part.in_begin;
    for (int64_t step = 0; step < to.steps(); ++step) {
      const int64_t done = step * kBandDepth;
      const int64_t count = row < to.out() ? std::min(kBandDepth, to.in() - done) : 0;
      LoadStep(weight, source + done, count, values);
      std::byte* const pairs = to.pairs(kernel, row, step);
      for (int64_t pair = 0; pair < kBandDepth / 2; ++pair) {
        std::memcpy(pairs + pair * kernel.pair_stride, values + 2 * pair, 4);
      }
    }
  }
}

BandRows RowsInPlace(Matrix in, int64_t tile_rows) {
  const int64_t stride = in.cols * static_cast<int64_t>(sizeof(uint16_t));
  return {.data = static_cast<const std::byte*>(in.data),
          .count = in.rows,
          .tile_rows = tile_rows,
          .row_stride = stride,
          .step_stride = kBandLineBytes,
          .tile_stride = tile_rows * stride};
}

// Lays rows out as tiles, in which what is beyond the rows' length is 0.
BandRows RowsAsTiles(Matrix in, int64_t tile_rows, std::byte* to, int threads) {
  const int64_t steps = StepsOf(in.cols);
  const BandRows rows = {.data = to,
                         .count = in.rows,
                         .tile_rows = tile_rows,
                         .row_stride = kBandLineBytes,
                         .step_stride = tile_rows * kBandLineBytes,
                         .tile_stride = steps * tile_rows * kBandLineBytes};
  const HostTensor from = {in.data, in.dtype, in.rows, in.cols};
  ParallelRanges(threads, in.rows, LayoutGrain(in.cols), [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      std::byte* const first =
          to + row / tile_rows * rows.tile_stride + row % tile_rows * kBandLineBytes;
      for (int64_t step = 0; step < steps; ++step) {
        const int64_t done = step * kBandDepth;
        LoadStep(from, row * in.cols + done, std::min(kBandDepth, in.cols - done),
                 reinterpret_cast<uint16_t*>(first + step * rows.step_stride));
      }
    }
  });
  return rows;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PackedWeight>> BandGemm::Pack(const HostTensor& weight,
                                                             const Shard& part) {
  const int64_t out = part.out_end - part.out_begin;
  const int64_t in = part.in_end - part.in_begin;
  BATON_ASSIGN_OR_RETURN(auto data, AllocateHost(static_cast<size_t>(BandBytes(out, in))));
  auto packed = std::make_unique<BandWeight>(out, in, std::move(data));
  ParallelItems(threads_, packed->bands(),
                [&](int64_t band, int) { PackBand(weight, part, kernel_, band, *packed); });
  return packed;
}

absl::Status BandGemm::Reserve(int64_t rows, int64_t in) {
  // The last tile has room for rows that are not there.
  const int64_t padded = std::min(rows, kernel_.max_rows) + kBandBlock;
  const auto bytes = static_cast<size_t>(padded * StepsOf(in) * kBandLineBytes);
  if (tiles_ != nullptr && tiles_->size() >= bytes) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(tiles_, AllocateHost(bytes));
  return absl::OkStatus();
}

absl::Status BandGemm::Prepare(std::span<const MatMulUse> uses) {
  for (const MatMulUse& use : uses) {
    BATON_RETURN_IF_ERROR(Reserve(use.max_rows, use.weight->in()));
  }
  return absl::OkStatus();
}

BandRows BandGemm::RowsFor(Matrix in) {
  if (in.rows <= kernel_.rows_in_place && in.cols % kBandDepth == 0) {
    return RowsInPlace(in, kernel_.tile_rows);
  }
  const absl::Status reserved = Reserve(in.rows, in.cols);
  BATON_CHECK(reserved.ok()) << reserved.ToString();
  const int64_t tiles = (in.rows + kernel_.tile_rows - 1) / kernel_.tile_rows;
  const int64_t rows = kernel_.equal_tiles ? (in.rows + tiles - 1) / tiles : kernel_.tile_rows;
  return RowsAsTiles(in, rows, static_cast<std::byte*>(tiles_->data()), threads_);
}

void BandGemm::Run(const PackedWeight& weight, Matrix in, Matrix out,
                   const MatMulEpilogue& epilogue) {
  const auto& packed = static_cast<const BandWeight&>(weight);
  for (int64_t row = 0; row < in.rows; row += kernel_.max_rows) {
    const int64_t count = std::min(kernel_.max_rows, in.rows - row);
    BandProduct product = {
        .rows = RowsFor(Matrix::Dense(in.row(row), in.dtype, count, in.cols)),
        .bands = packed.band(0),
        .num_bands = packed.bands(),
        .steps = packed.steps(),
        .output = OutputOf(Matrix::Dense(out.row(row), out.dtype, count, out.cols), epilogue)};
    product.group = GroupFor(product, threads_);
    ParallelRanges(threads_, product.parts(), 1,
                   [&](int64_t begin, int64_t end) { kernel_.run(product, begin, end); });
  }
}

void BandGemm::UnpackRow(const PackedWeight& weight, int64_t row, Matrix out, int64_t out_row) {
  const auto& packed = static_cast<const BandWeight&>(weight);
  float* const to = static_cast<float*>(out.row(out_row));
  for (int64_t k = 0; k < packed.in(); ++k) {
    uint16_t value = 0;
    const int64_t pair = k % kBandDepth / 2;
    const std::byte* const pairs = packed.pairs(kernel_, row, k / kBandDepth);
    std::memcpy(&value, pairs + pair * kernel_.pair_stride + k % 2 * 2, 2);
    to[k] = FloatFromBf16(value);
  }
}

std::string BandGemm::layout() const { return std::string(kernel_.layout); }

std::string BandGemm::FormOf(int64_t out, int64_t in) const {
  return absl::StrCat(layout(), ", ", out, " x ", in);
}

PackedImage BandGemm::ImageOf(const PackedWeight& weight) const {
  const auto& packed = static_cast<const BandWeight&>(weight);
  return {.form = FormOf(packed.out(), packed.in()), .parts = {{packed.band(0), packed.bytes()}}};
}

absl::StatusOr<std::unique_ptr<PackedWeight>> BandGemm::FromImage(const PackedImage& image,
                                                                  int64_t out, int64_t in) const {
  const auto bytes = static_cast<size_t>(BandBytes(out, in));
  BATON_RETURN_IF_ERROR(CheckImage(image, FormOf(out, in), bytes));
  return std::make_unique<BandWeight>(out, in, ViewHost(image.parts[0]));
}

}  // namespace baton::kernels::cpu
