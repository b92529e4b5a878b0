#include "kernels/cpu/quantized_weight.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "common/base/status.h"
#include "kernels/cpu/panel_gemm.h"
#include "kernels/cpu/parallel.h"
#include "kernels/float_convert.h"
#include "kernels/host_memory.h"

namespace baton::kernels::cpu {
namespace {

// Writes one record: the codes, scales and zero points of columns [begin, end) of the tensor, for
// the outputs of a panel. The record holds zeros.
void PackRecord(const QuantizedTensor& from, const QuantizedLayout& layout, int64_t first_row,
                int64_t rows, int64_t begin, int64_t end, std::byte* record) {
  const int64_t source_group = begin / from.group;
  std::byte* const scales = record + layout.code_bytes();
  for (int64_t lane = 0; lane < rows; ++lane) {
    const int64_t row = first_row + lane;
    const int8_t* codes = from.codes + row * from.cols + begin;
    for (int64_t k = 0; k < end - begin; ++k) {
      if (layout.bits == 8) {
        record[k * kPanelWidth + lane] = static_cast<std::byte>(codes[k]);
        continue;
      }
      std::byte* const entry = record + (k / 8 * kPanelWidth + lane) * 4 + k % 8 / 2;
      *entry |= static_cast<std::byte>((codes[k] + kCodeOffset4) << (k % 2 * 4));
    }
    const int64_t index = row * from.groups() + source_group;
    if (layout.scale_dtype == DType::kF16) {
      reinterpret_cast<uint16_t*>(scales)[lane] = F16FromFloat(from.scales[index]);
    } else {
      StoreElement(scales, layout.scale_dtype, lane, from.scales[index]);
    }
    if (layout.zero_points) {
      const int offset = layout.bits == 4 ? kCodeOffset4 : 0;
      const auto zero = static_cast<int16_t>(from.zero_points[index] + offset);
      std::memcpy(scales + layout.scale_bytes() + lane * 2, &zero, sizeof(zero));
    }
    if (layout.minimums) {
      std::byte* const minimums = scales + layout.scale_bytes() + layout.zero_bytes();
      std::memcpy(minimums + lane * 4, &from.minimums[index], sizeof(float));
    }
  }
}

}  // namespace

QuantizedWeight::QuantizedWeight(int64_t out, const QuantizedLayout& layout,
                                 std::unique_ptr<Buffer> data, std::vector<int32_t> input_of)
    : out_(out), layout_(layout), data_(std::move(data)), input_of_(std::move(input_of)) {}

int64_t QuantizedWeight::panels() const { return (out_ + kPanelWidth - 1) / kPanelWidth; }

absl::StatusOr<std::unique_ptr<PackedWeight>> QuantizedWeight::Pack(const QuantizedTensor& weight,
                                                                    const Shard& part,
                                                                    int threads) {
  BATON_ASSIGN_OR_RETURN(const int64_t group, GroupOfShard(weight, part));
  const int64_t out = part.out_end - part.out_begin;
  const int64_t in = part.in_end - part.in_begin;
  const QuantizedLayout layout = {
      .bits = weight.bits,
      .in = in,
      .group = group,
      .groups = (in + group - 1) / group,
      .scale_dtype = weight.scale_dtype,
      .zero_points = weight.zero_points != nullptr,
      .offset = static_cast<float>(weight.zero_point + (weight.bits == 4 ? kCodeOffset4 : 0)),
      .minimums = weight.minimums != nullptr};
  const int64_t panels = (out + kPanelWidth - 1) / kPanelWidth;
  BATON_ASSIGN_OR_RETURN(auto data,
                         AllocateHost(static_cast<size_t>(panels * layout.panel_bytes())));
  std::vector<int32_t> input_of;
  if (weight.input_of != nullptr) input_of.assign(weight.input_of, weight.input_of + weight.cols);
  std::unique_ptr<QuantizedWeight> packed(
      new QuantizedWeight(out, layout, std::move(data), std::move(input_of)));
  ParallelItems(threads, panels, [&](int64_t panel, int) {
    std::memset(packed->panel(panel), 0, static_cast<size_t>(layout.panel_bytes()));
    const int64_t rows = std::min(kPanelWidth, out - panel * kPanelWidth);
    for (int64_t g = 0; g < layout.groups; ++g) {
      const int64_t begin = part.in_begin + g * group;
      PackRecord(weight, layout, part.out_begin + panel * kPanelWidth, rows, begin,
                 std::min(begin + group, part.in_end),
                 packed->panel(panel) + g * layout.record_bytes());
    }
  });
  return packed;
}

}  // namespace baton::kernels::cpu
