#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "kernels/backend.h"
#include "kernels/packed_images.h"
#include "kernels/quantized_tensor.h"

namespace baton::kernels::cpu {

// How the integers of a weight [out, in] lie in memory. As in PanelGemm, 16 outputs are a panel. A
// product reads it from front to back: it is one record per run of neighbouring groups of columns,
// whose numbers come first, for codes to begin at cache lines:
//
//   units    fp16 [16] of the scales, then those of the minimums, only where scale_dtype is kInt8
//   numbers  of each group of the run: scales [16] in the type `scale_dtype`; zeros int16 [16]
//            where there are zero_points; minimums [16] in the type of the scales where there are
//            minimums. Integers are multiplied by their unit.
//   codes    of each group of the run, bytes without a sign, integers plus code_bias(). Of 8 bits:
//            [group / 4][16][4], four neighbouring columns of an output side by side. Of 4 bits:
//            [group / 8][16][4], where a byte has column j of its eight in the lower half and
//            column j + 4 in the upper one
//
// What lies beyond the weight, as the columns that fill the last group, has codes of 0.
struct QuantizedLayout {
  int bits = 8;
  int64_t in = 0;
  int64_t group = 0;   // columns that share a scale, as GroupOfShard says
  int64_t groups = 0;  // of a row
  DType scale_dtype = DType::kF32;
  bool zero_points = false;
  int zero = 0;  // the code that stands for 0 in every group; with zero_points this plus those
  bool minimums = false;
  int64_t run = kRun;  // groups of a record, fewer in the last one; with units those that share one

  static constexpr int64_t kRun = 8;

  int code_bias() const { return bits == 4 ? 8 : 128; }
  // Whether products need the sums of a row's inputs of every group.
  bool needs_sums() const { return zero_points || minimums; }
  // Columns whose inputs share a scale.
  int64_t block() const { return InputBlock(group); }
  int64_t blocks() const { return padded_in() / block(); }
  int64_t padded_in() const { return group * groups; }
  int64_t code_bytes() const { return group * 16 * bits / 8; }
  int64_t scale_bytes() const { return 16 * static_cast<int64_t>(SizeOf(scale_dtype)); }
  int64_t zero_bytes() const { return zero_points ? 32 : 0; }
  int64_t number_bytes() const {
    return scale_bytes() + zero_bytes() + (minimums ? scale_bytes() : 0);
  }
  bool units() const { return scale_dtype == DType::kInt8; }
  int64_t unit_bytes() const { return units() ? (minimums ? 64 : 32) : 0; }
  // The bytes of a record of so many groups.
  int64_t record_bytes(int64_t count) const {
    return unit_bytes() + count * (number_bytes() + code_bytes());
  }
  int64_t panel_bytes() const {
    return groups / run * record_bytes(run) + (groups % run > 0 ? record_bytes(groups % run) : 0);
  }
};

// A weight of small integers in that layout.
class QuantizedWeight final : public PackedWeight {
 public:
  // `part` has no -1 ends: see ResolveShard.
  static absl::StatusOr<std::unique_ptr<PackedWeight>> Pack(const QuantizedTensor& weight,
                                                            const Shard& part, int threads);

  // An image has the panels, and the order of the inputs where that is another.
  static constexpr char kLayout[] = "integers version 3";
  static bool IsForm(std::string_view form);
  static absl::StatusOr<std::unique_ptr<PackedWeight>> FromImage(const PackedImage& image,
                                                                 int64_t out, int64_t in);
  PackedImage Image() const;

  int64_t out() const override { return out_; }
  int64_t in() const override { return layout_.in; }
  size_t bytes() const override { return data_->size(); }
  bool quantized() const override { return true; }
  const QuantizedLayout& layout() const { return layout_; }
  int64_t panels() const;
  std::byte* panel(int64_t index) const {
    return static_cast<std::byte*>(data_->data()) + index * layout_.panel_bytes();
  }
  // The element of the input that a column is multiplied with; empty: the one of its own number.
  const std::vector<int32_t>& input_of() const { return input_of_; }

 private:
  QuantizedWeight(int64_t out, const QuantizedLayout& layout, std::unique_ptr<Buffer> data,
                  std::vector<int32_t> input_of);

  int64_t out_;
  QuantizedLayout layout_;
  std::unique_ptr<Buffer> data_;
  std::vector<int32_t> input_of_;  // [in]
};

}  // namespace baton::kernels::cpu
