#include "kernels/cpu/quantized_weight.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <numeric>
#include <optional>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "common/base/status.h"
#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/parallel.h"
#include "kernels/float_convert.h"
#include "kernels/host_memory.h"

namespace baton::kernels::cpu {
namespace {

// Writes records, for the outputs of a panel: the columns of a part of a tensor, whose rows
// [first_row, first_row + rows) are those of the panel. The panel holds zeros.
class PanelPacker final {
 public:
  PanelPacker(const QuantizedTensor& from, const Shard& part, const QuantizedLayout& layout,
              int64_t first_row, int64_t rows)
      : from_(from), part_(part), layout_(layout), first_row_(first_row), rows_(rows) {}

  void Pack(std::byte* to) const {
    for (int64_t first = 0; first < layout_.groups; first += layout_.run) {
      const int64_t count = std::min(layout_.run, layout_.groups - first);
      if (layout_.units()) PackUnits(first, to);
      std::byte* const numbers = to + layout_.unit_bytes();
      std::byte* const codes = numbers + count * layout_.number_bytes();
      for (int64_t i = 0; i < count; ++i) {
        PackNumbers(first + i, numbers + i * layout_.number_bytes());
        PackCodes(first + i, codes + i * layout_.code_bytes());
      }
      to += layout_.record_bytes(count);
    }
  }

 private:
  int64_t ColumnOf(int64_t group) const { return part_.in_begin + group * layout_.group; }
  // Of a number of the group in the tensor.
  int64_t IndexOf(int64_t lane, int64_t group) const {
    return (first_row_ + lane) * from_.groups() + ColumnOf(group) / from_.group;
  }

  void PackUnits(int64_t group, std::byte* to) const {
    auto* units = reinterpret_cast<uint16_t*>(to);
    for (int64_t lane = 0; lane < rows_; ++lane) {
      const int64_t index = IndexOf(lane, group) / from_.unit_groups;
      units[lane] = from_.scale_steps.units[index];
      if (layout_.minimums) units[kPanelWidth + lane] = from_.minimum_steps.units[index];
    }
  }
  void PackNumbers(int64_t group, std::byte* to) const {
    std::byte* const zeros = to + layout_.scale_bytes();
    std::byte* const minimums = zeros + layout_.zero_bytes();
    for (int64_t lane = 0; lane < rows_; ++lane) {
      const int64_t index = IndexOf(lane, group);
      StoreNumber(from_.scales, from_.scale_steps, index, to, lane);
      if (layout_.zero_points) {
        std::memcpy(zeros + lane * 2, &from_.zero_points[index], sizeof(int16_t));
      }
      if (layout_.minimums) {
        StoreNumber(from_.minimums, from_.minimum_steps, index, minimums, lane);
      }
    }
  }
  void StoreNumber(const float* numbers, const GroupSteps& steps, int64_t index, std::byte* to,
                   int64_t lane) const {
    if (layout_.units()) {
      to[lane] = static_cast<std::byte>(steps.steps[index]);
    } else if (layout_.scale_dtype == DType::kF16) {
      reinterpret_cast<uint16_t*>(to)[lane] = F16FromFloat(numbers[index]);
    } else {
      StoreElement(to, layout_.scale_dtype, lane, numbers[index]);
    }
  }
  void PackCodes(int64_t group, std::byte* to) const {
    const int64_t begin = ColumnOf(group);
    const int64_t count = std::min(layout_.group, part_.in_end - begin);
    for (int64_t lane = 0; lane < rows_; ++lane) {
      const int8_t* codes = from_.codes + (first_row_ + lane) * from_.cols + begin;
      for (int64_t k = 0; k < count; ++k) {
        const int code = codes[k] + layout_.code_bias();
        if (layout_.bits == 8) {
          to[(k / 4 * kPanelWidth + lane) * 4 + k % 4] = static_cast<std::byte>(code);
          continue;
        }
        to[(k / 8 * kPanelWidth + lane) * 4 + k % 4] |=
            static_cast<std::byte>(code << (k % 8 / 4 * 4));
      }
    }
  }

  const QuantizedTensor& from_;
  const Shard& part_;
  const QuantizedLayout& layout_;
  const int64_t first_row_;
  const int64_t rows_;
};

int64_t PanelsOf(int64_t out) { return (out + kPanelWidth - 1) / kPanelWidth; }

// The words of an image's form, one blank between them: what kLayout is, then bits, columns of a
// group, type of the scales, whether zero points follow, what stands for 0 without them, whether
// minimums follow, and groups of a run.
std::string FormOf(const QuantizedLayout& layout) {
  return absl::StrCat(QuantizedWeight::kLayout, " ", layout.bits, " ", layout.group, " ",
                      std::string(Name(layout.scale_dtype)), " ", layout.zero_points ? 1 : 0, " ",
                      layout.zero, " ", layout.minimums ? 1 : 0, " ", layout.run);
}

// Whether GroupOfShard gives groups of so many columns: the kernels know no others.
bool IsGroup(int64_t group) {
  return group >= kGroupStep && group <= kMostGroup &&
         std::has_single_bit(static_cast<uint64_t>(group));
}

// Whether a code, which is that of a zero point of 16 bits plus code_bias(), may stand for 0.
bool IsZero(int zero) {
  return zero >= std::numeric_limits<int16_t>::min() &&
         zero <= std::numeric_limits<int16_t>::max() + 128;
}

bool IsRun(const QuantizedLayout& layout) {
  if (!layout.units()) return layout.run == QuantizedLayout::kRun;
  return layout.run >= 1 && layout.run <= kMostGroup;
}

// The layout of a row of `in` columns; empty for a form that FormOf does not make.
std::optional<QuantizedLayout> LayoutOf(const std::string& form, int64_t in) {
  const std::vector<std::string> words = absl::StrSplit(form, ' ');
  constexpr size_t kWordsOfLayout = 3;
  if (words.size() != kWordsOfLayout + 7) return std::nullopt;
  QuantizedLayout layout = {.in = in};
  const auto dtype = ParseKvDType(words[kWordsOfLayout + 2]);
  if (!absl::SimpleAtoi(words[kWordsOfLayout], &layout.bits) ||
      !absl::SimpleAtoi(words[kWordsOfLayout + 1], &layout.group) || !dtype.has_value() ||
      !absl::SimpleAtoi(words[kWordsOfLayout + 4], &layout.zero) ||
      !absl::SimpleAtoi(words[kWordsOfLayout + 6], &layout.run)) {
    return std::nullopt;
  }
  const bool bits = layout.bits == 4 || layout.bits == 8;
  if (!bits || !IsGroup(layout.group) || *dtype == DType::kFp8 || !IsZero(layout.zero)) {
    return std::nullopt;
  }
  layout.groups = (in + layout.group - 1) / layout.group;
  layout.scale_dtype = *dtype;
  layout.zero_points = words[kWordsOfLayout + 3] == "1";
  layout.minimums = words[kWordsOfLayout + 5] == "1";
  if (!IsRun(layout)) return std::nullopt;
  if (FormOf(layout) != form) return std::nullopt;
  return layout;
}

absl::Status BadImage(const std::string& why) {
  return absl::InvalidArgumentError(absl::StrCat("an image of integers ", why));
}

// Whether every entry names an element of an input [in].
bool AreInputs(const std::vector<int32_t>& input_of, int64_t in) {
  return std::ranges::all_of(input_of, [in](int32_t input) { return 0 <= input && input < in; });
}

}  // namespace

QuantizedWeight::QuantizedWeight(int64_t out, const QuantizedLayout& layout,
                                 std::unique_ptr<Buffer> data, std::vector<int32_t> input_of)
    : out_(out), layout_(layout), data_(std::move(data)), input_of_(std::move(input_of)) {}

int64_t QuantizedWeight::panels() const { return PanelsOf(out_); }

bool QuantizedWeight::IsForm(std::string_view form) { return form.starts_with(kLayout); }

PackedImage QuantizedWeight::Image() const {
  PackedImage image = {.form = FormOf(layout_), .parts = {{panel(0), bytes()}}};
  if (!input_of_.empty()) image.parts.push_back(std::as_bytes(std::span(input_of_)));
  return image;
}

absl::StatusOr<std::unique_ptr<PackedWeight>> QuantizedWeight::FromImage(const PackedImage& image,
                                                                         int64_t out, int64_t in) {
  const std::optional<QuantizedLayout> layout = LayoutOf(image.form, in);
  if (!layout.has_value()) {
    return BadImage(absl::StrCat("has the form '", image.form, "'; expected '", kLayout,
                                 "' and its seven words"));
  }
  const auto bytes = static_cast<size_t>(PanelsOf(out) * layout->panel_bytes());
  const size_t order_bytes = static_cast<size_t>(in) * sizeof(int32_t);
  const size_t parts = image.parts.size();
  if (parts < 1 || parts > 2 || image.parts[0].size() != bytes ||
      (parts == 2 && image.parts[1].size() != order_bytes)) {
    return BadImage(absl::StrCat("has ", parts, " parts, the first of ",
                                 parts > 0 ? image.parts[0].size() : 0, " bytes; expected ", bytes,
                                 " bytes of panels, then none or ", order_bytes));
  }
  std::vector<int32_t> input_of(parts == 2 ? static_cast<size_t>(in) : 0);
  if (parts == 2) std::memcpy(input_of.data(), image.parts[1].data(), order_bytes);
  if (!AreInputs(input_of, in)) {
    return BadImage(absl::StrCat("takes inputs beyond the ", in, " that there are"));
  }
  return std::unique_ptr<PackedWeight>(
      new QuantizedWeight(out, *layout, ViewHost(image.parts[0]), std::move(input_of)));
}

absl::StatusOr<std::unique_ptr<PackedWeight>> QuantizedWeight::Pack(const QuantizedTensor& weight,
                                                                    const Shard& part,
                                                                    int threads) {
  BATON_ASSIGN_OR_RETURN(const int64_t group, GroupOfShard(weight, part));
  const int64_t out = part.out_end - part.out_begin;
  const int64_t in = part.in_end - part.in_begin;
  QuantizedLayout layout = {.bits = weight.bits,
                            .in = in,
                            .group = group,
                            .groups = (in + group - 1) / group,
                            .scale_dtype = weight.scale_dtype,
                            .zero_points = weight.zero_points != nullptr,
                            .minimums = weight.minimums != nullptr};
  if (weight.unit_groups > 0) {
    layout.scale_dtype = DType::kInt8;
    // A part may begin between the columns that share a unit.
    layout.run = std::gcd(weight.unit_groups * weight.group, part.in_begin) / group;
  }
  layout.zero = layout.code_bias() + (layout.zero_points ? 0 : weight.zero_point);
  const int64_t panels = PanelsOf(out);
  BATON_ASSIGN_OR_RETURN(auto data,
                         AllocateHost(static_cast<size_t>(panels * layout.panel_bytes())));
  std::vector<int32_t> input_of;
  if (weight.input_of != nullptr) input_of.assign(weight.input_of, weight.input_of + weight.cols);
  std::unique_ptr<QuantizedWeight> packed(
      new QuantizedWeight(out, layout, std::move(data), std::move(input_of)));
  ParallelItems(threads, panels, [&](int64_t panel, int) {
    std::memset(packed->panel(panel), 0, static_cast<size_t>(layout.panel_bytes()));
    const int64_t first = panel * kPanelWidth;
    PanelPacker(weight, part, layout, part.out_begin + first, std::min(kPanelWidth, out - first))
        .Pack(packed->panel(panel));
  });
  return packed;
}

}  // namespace baton::kernels::cpu
