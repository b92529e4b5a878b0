#include "kernels/cpu/quantized_gemm.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cpu/parallel.h"
#include "kernels/host_memory.h"

namespace baton::kernels::cpu {
namespace {

// Makes `buffer` hold at least `count` elements of so many bytes.
absl::Status Grow(int64_t count, size_t element, std::unique_ptr<Buffer>& buffer) {
  const size_t bytes = static_cast<size_t>(count) * element;
  if (buffer != nullptr && buffer->size() >= bytes) return absl::OkStatus();
  BATON_ASSIGN_OR_RETURN(buffer, AllocateHost(bytes));
  return absl::OkStatus();
}

}  // namespace

absl::Status QuantizedGemm::Reserve(const QuantizedWeight& weight) {
  const QuantizedLayout& layout = weight.layout();
  BATON_RETURN_IF_ERROR(Grow(kPanelRows * layout.blocks(), sizeof(RoundedBlock), blocks_));
  if (!layout.needs_sums()) return absl::OkStatus();
  return Grow(kPanelRows * layout.groups, sizeof(float), sums_);
}

absl::Status QuantizedGemm::Prepare(std::span<const MatMulUse> uses) {
  for (const MatMulUse& use : uses) {
    if (!use.weight->quantized()) continue;
    BATON_RETURN_IF_ERROR(Reserve(static_cast<const QuantizedWeight&>(*use.weight)));
  }
  return absl::OkStatus();
}

void QuantizedGemm::RunRows(const QuantizedWeight& weight, Matrix in, Matrix out,
                            const MatMulEpilogue& epilogue) {
  const QuantizedLayout& layout = weight.layout();
  const int64_t tile_rows = kernel_.tile_rows(layout.bits);
  const RoundTask round = {
      .in = in,
      .input_of = weight.input_of().empty() ? nullptr : weight.input_of().data(),
      .rows = {.rows = in.rows,
               .tiles = (in.rows + tile_rows - 1) / tile_rows,
               .layout = &layout,
               .blocks = static_cast<RoundedBlock*>(blocks_->data()),
               .sums = layout.needs_sums() ? static_cast<float*>(sums_->data()) : nullptr}};
  ParallelRanges(threads_, round.rows.tiles * layout.groups,
                 LayoutGrain(layout.group * in.rows / round.rows.tiles),
                 [&](int64_t begin, int64_t end) { kernel_.round(round, begin, end); });
  const PanelOutput output = OutputOf(out, epilogue);
  const int64_t multiply_adds = in.rows * in.cols * out.cols;
  ParallelShares(threads_, weight.panels(), multiply_adds, [&](int64_t begin, int64_t end) {
    kernel_.multiply({.rows = round.rows,
                      .panels = weight.panel(begin),
                      .count = end - begin,
                      .output = output,
                      .first_column = begin * kPanelWidth});
  });
}

void QuantizedGemm::Run(const PackedWeight& weight, Matrix in, Matrix out,
                        const MatMulEpilogue& epilogue) {
  const auto& packed = static_cast<const QuantizedWeight&>(weight);
  const absl::Status reserved = Reserve(packed);
  BATON_CHECK(reserved.ok()) << reserved.ToString();
  for (int64_t row = 0; row < in.rows; row += kPanelRows) {
    const int64_t count = std::min(kPanelRows, in.rows - row);
    RunRows(packed, Matrix::Dense(in.row(row), in.dtype, count, in.cols),
            Matrix::Dense(out.row(row), out.dtype, count, out.cols), epilogue);
  }
}

}  // namespace baton::kernels::cpu
