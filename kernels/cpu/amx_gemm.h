#pragma once

#include <memory>
#include <span>
#include <string>

#include "kernels/cpu/amx_tiles.h"
#include "kernels/cpu/gemm.h"
#include "kernels/cpu/panel_gemm.h"

namespace baton::kernels::cpu {

// The matrix product in bf16 by AMX, which multiplies tiles of up to 16 rows. Each element of the
// output has one accumulator in fp32, to which the products along the row are added 32 at a time
// in ascending order, for any number of rows, so a row has the same bits in any batch, on any
// number of threads.
//
// A weight lies in bands of 32 outputs, [in / 32][2 tiles], each tile [16 pairs][16 outputs][2];
// what is missing in the last band and the last step along a row is 0. A band is multiplied with
// 32 rows at a time: four tiles of sums, to which a step adds the products of two tiles of rows and
// two of the weight. Several bands stay in the second-level cache while all rows pass. Up to 32
// rows are read where they are, more are first laid out as tiles.
class AmxGemm final : public Gemm {
 public:
  // For machines where MayUseAmx() holds.
  explicit AmxGemm(int threads) : threads_(threads) {}

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

  int threads_;
  std::string implementation_ = "tiles:amx_bf16";
  std::unique_ptr<Buffer> tiles_;  // of up to kMaxRows rows
};

inline constexpr int64_t kAmxBand = 32;   // outputs
inline constexpr int64_t kAmxDepth = 32;  // elements of a row that one step multiplies
inline constexpr int64_t kAmxBlock = 32;  // rows
inline constexpr int64_t kAmxGroup = 8;   // the most bands
inline constexpr int64_t kAmxStepBytes = 2 * kTileBytes;

// Input rows as tiles of 16. The tile of rows [16 i, ...) and step s begins at
// data + i * tile_stride + s * step_stride.
struct AmxRows {
  const std::byte* data = nullptr;
  int64_t count = 0;
  int64_t row_stride = 0;  // bytes, as all three
  int64_t step_stride = 0;
  int64_t tile_stride = 0;

  int64_t blocks() const { return (count + kAmxBlock - 1) / kAmxBlock; }
};

// A product of `rows` with a whole weight. Its parts are blocks of rows times groups of bands,
// counted group by group: part = group * rows.blocks() + block.
struct AmxProduct {
  AmxRows rows;
  const std::byte* bands = nullptr;
  int64_t num_bands = 0;
  int64_t group = 1;  // bands, up to kAmxGroup
  int64_t steps = 0;
  PanelOutput output;

  int64_t band_bytes() const { return steps * kAmxStepBytes; }
  int64_t parts() const { return (num_bands + group - 1) / group * rows.blocks(); }
};

// Computes the parts [begin, end) on the calling thread.
void RunAmxParts(const AmxProduct& product, int64_t begin, int64_t end);

}  // namespace baton::kernels::cpu
