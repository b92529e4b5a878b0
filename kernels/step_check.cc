#include "kernels/step_check.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"

namespace baton::kernels {
namespace {

std::span<float> Floats(Matrix dense) {
  return {static_cast<float*>(dense.data), static_cast<size_t>(dense.rows * dense.cols)};
}

absl::Status CheckSequence(const StepLayout& layout, const StepLayout::Sequence& sequence,
                           const PagedKv& kv) {
  if (sequence.num_tokens <= 0 || sequence.context < sequence.num_tokens) {
    return absl::InternalError(absl::StrCat("a sequence with ", sequence.num_tokens,
                                            " tokens in a context of ", sequence.context,
                                            "; expected 1 <= tokens <= context"));
  }
  const int32_t first = sequence.context - sequence.num_tokens;
  for (int32_t i = 0; i < sequence.num_tokens; ++i) {
    const int32_t position = layout.positions[sequence.token_begin + i];
    if (position != first + i) {
      return absl::InternalError(absl::StrCat("token ", sequence.token_begin + i, " has position ",
                                              position, ", expected ", first + i));
    }
  }
  const int64_t needed =
      (int64_t{sequence.context} + kv.layout.block_size - 1) / kv.layout.block_size;
  if (static_cast<int64_t>(sequence.blocks.size()) < needed) {
    return absl::InternalError(absl::StrCat("a block table of ", sequence.blocks.size(),
                                            " blocks for a context of ", sequence.context,
                                            " tokens; expected at least ", needed));
  }
  for (int64_t i = 0; i < needed; ++i) {
    if (sequence.blocks[i] < 0 || sequence.blocks[i] >= kv.num_blocks) {
      return absl::InternalError(
          absl::StrCat("block id ", sequence.blocks[i], " outside the pool of ", kv.num_blocks));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status CheckStep(const StepLayout& layout, const PagedKv& kv) {
  if (layout.positions.size() != layout.tokens.size()) {
    return absl::InternalError(
        absl::StrCat(layout.tokens.size(), " tokens but ", layout.positions.size(), " positions"));
  }
  if (kv.layout.block_size <= 0) {
    return absl::InternalError(absl::StrCat("KV block size ", kv.layout.block_size));
  }
  int64_t begin = 0;
  for (const StepLayout::Sequence& sequence : layout.sequences) {
    if (sequence.token_begin != begin || sequence.num_tokens < 0 ||
        begin + sequence.num_tokens > static_cast<int64_t>(layout.tokens.size())) {
      return absl::InternalError(absl::StrCat("a sequence at token ", sequence.token_begin,
                                              " of length ", sequence.num_tokens, ", expected at ",
                                              begin, " within ", layout.tokens.size(), " tokens"));
    }
    BATON_RETURN_IF_ERROR(CheckSequence(layout, sequence, kv));
    begin += sequence.num_tokens;
  }
  if (begin != static_cast<int64_t>(layout.tokens.size())) {
    return absl::InternalError(
        absl::StrCat("the sequences cover ", begin, " of ", layout.tokens.size(), " tokens"));
  }
  for (const int32_t row : layout.sample_rows) {
    if (row < 0 || row >= begin) {
      return absl::InternalError(absl::StrCat("a sample of row ", row, " of ", begin));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckHostKv(const KvLayout& layout) {
  if (layout.dtype == DType::kF16) {
    return absl::InvalidArgumentError(
        "a KV cache of float16; expected float32, bfloat16, int8 or fp8");
  }
  if (layout.quantized() && layout.head_dim % KvLayout::kQuantizedDims != 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a KV cache of ", std::string(Name(layout.dtype)), " for heads of ",
                     layout.head_dim, "; expected a multiple of ", KvLayout::kQuantizedDims));
  }
  return absl::OkStatus();
}

std::string SumOverRanks(Collective& collective, Matrix values) {
  return std::string(collective.AllReduceSum(Floats(values)).message());
}

std::string GatherOverRanks(Collective& collective, Matrix parts) {
  return std::string(collective.AllGather(Floats(parts)).message());
}

absl::Status DeviceFault(std::string_view message) {
  ErrorDetail detail;
  detail.reason = Reason::kDeviceFault;
  return MakeError(absl::StatusCode::kInternal, std::move(detail), message);
}

}  // namespace baton::kernels
