#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/panel_gemm.h"

namespace baton::kernels::cpu {

inline constexpr int64_t kBandWidth = 32;      // outputs
inline constexpr int64_t kBandDepth = 32;      // elements of a row that one step multiplies
inline constexpr int64_t kBandBlock = 32;      // rows, the most that a part has
inline constexpr int64_t kBandGroup = 8;       // the most bands that a part has
inline constexpr int64_t kBandLineBytes = 64;  // a step of one row, or a pair of each of 16 outputs
inline constexpr int64_t kBandStepBytes = kBandWidth * kBandLineBytes;

// Input rows in bf16, in tiles of `tile_rows`. Step s of row r begins at
// data + r / tile_rows * tile_stride + r % tile_rows * row_stride + s * step_stride.
struct BandRows {
  const std::byte* data = nullptr;
  int64_t count = 0;
  int64_t tile_rows = 1;
  int64_t row_stride = 0;  // bytes, as all three
  int64_t step_stride = 0;
  int64_t tile_stride = 0;

  // Rows of a block: the tiles that fit kBandBlock.
  int64_t block() const { return kBandBlock / tile_rows * tile_rows; }
  int64_t blocks() const { return (count + block() - 1) / block(); }
  // The beginning of row `row`, the first of its tile.
  const std::byte* tile(int64_t row) const { return data + row / tile_rows * tile_stride; }
};

// A product of `rows` with a whole weight. Its parts are blocks of rows times groups of bands,
// counted group by group: part = group * rows.blocks() + block.
struct BandProduct {
  BandRows rows;
  const std::byte* bands = nullptr;
  int64_t num_bands = 0;
  int64_t group = 1;  // bands, up to kBandGroup
  int64_t steps = 0;
  PanelOutput output;

  int64_t band_bytes() const { return steps * kBandStepBytes; }
  const std::byte* band(int64_t index) const { return bands + index * band_bytes(); }
  int64_t parts() const { return (num_bands + group - 1) / group * rows.blocks(); }
};

// A way to multiply bands, and how these lie for it. A step of a band is 16 pairs of columns of 32
// outputs. Pair p of output o begins at
// p * pair_stride + o / 16 * half_stride + o % 16 * 4 of its step.
struct BandKernel {
  std::string_view implementation;
  std::string_view layout;
  int64_t pair_stride = 0;
  int64_t half_stride = 0;
  int64_t tile_rows = 0;      // the most
  bool equal_tiles = false;   // tiles have about equally many rows; otherwise all but the last most
  int64_t max_rows = 0;       // that share a reading of the weight
  int64_t rows_in_place = 0;  // so many rows are read where they are, more as tiles
  // Computes the parts [begin, end) on the calling thread.
  void (*run)(const BandProduct& product, int64_t begin, int64_t end) = nullptr;
};

const BandKernel& AmxKernel();    // for machines where MayUseAmx() holds
const BandKernel& PairsKernel();  // for machines where HasAvx512Bf16() holds

// The matrix product in bf16 where a machine has instructions for it. Each element of the output
// has one accumulator in fp32, to which the products along the row are added in one order for any
// number of rows, so a row has the same bits in any batch, on any number of threads. The order, and
// with it the bits, is the kernel's.
//
// A weight lies in bands of 32 outputs, [in / 32] steps each; what is missing in the last band and
// the last step along a row is 0. Several bands stay in the second-level cache while all rows pass.
// A few rows are read where they are, more are first laid out as tiles, step by step.
class BandGemm final : public Gemm {
 public:
  BandGemm(const BandKernel& kernel, int threads)
      : kernel_(kernel), threads_(threads), implementation_(kernel.implementation) {}

  const std::string& implementation() const override { return implementation_; }
  absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const HostTensor& weight,
                                                     const Shard& part) override;
  absl::Status Prepare(std::span<const MatMulUse> uses) override;
  void Run(const PackedWeight& weight, Matrix in, Matrix out,
           const MatMulEpilogue& epilogue) override;
  void UnpackRow(const PackedWeight& weight, int64_t row, Matrix out, int64_t out_row) override;
  std::string layout() const override;
  PackedImage ImageOf(const PackedWeight& weight) const override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> FromImage(const PackedImage& image, int64_t out,
                                                          int64_t in) const override;

 private:
  absl::Status Reserve(int64_t rows, int64_t in);
  std::string FormOf(int64_t out, int64_t in) const;
  BandRows RowsFor(Matrix in);

  const BandKernel& kernel_;
  int threads_;
  std::string implementation_;
  std::unique_ptr<Buffer> tiles_;  // of up to max_rows rows
};

}  // namespace baton::kernels::cpu
