#include "kernels/quantized_tensor.h"

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/host_memory.h"

namespace baton::kernels {
namespace {

absl::Status CheckSizes(const QuantizedTensor& weight) {
  const bool bits = weight.bits == 4 || weight.bits == 8;
  if (bits && weight.rows > 0 && weight.cols > 0 && weight.group > 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("a weight of ", weight.rows, " x ", weight.cols, " codes of ", weight.bits,
                   " bits in groups of ", weight.group,
                   "; expected 4 or 8 bits, and at least one row, column and group"));
}

}  // namespace

absl::StatusOr<Shard> ResolveShard(const QuantizedTensor& weight, const Shard& shard) {
  BATON_RETURN_IF_ERROR(CheckSizes(weight));
  BATON_ASSIGN_OR_RETURN(const Shard part,
                         ResolveShard(HostTensor{.rows = weight.rows, .cols = weight.cols}, shard));
  const bool all_columns = part.in_begin == 0 && part.in_end == weight.cols;
  if (weight.input_of == nullptr || all_columns) return part;
  return absl::InvalidArgumentError(
      absl::StrCat("columns [", part.in_begin, ", ", part.in_end, ") of a weight of ", weight.rows,
                   " x ", weight.cols,
                   " whose columns are not in the order of its input; expected all of them: use "
                   "--tensor-parallel-size 1, or a checkpoint without act-order"));
}

absl::StatusOr<int64_t> GroupOfShard(const QuantizedTensor& weight, const Shard& part) {
  // A group that is the whole row ends nowhere else.
  const bool whole_row = weight.group >= weight.cols;
  int64_t group = kMostGroup;
  const auto divides = [&](int64_t at) { return at % group == 0; };
  const auto fits = [&] {
    return whole_row || (divides(weight.group) && divides(part.in_begin) &&
                         (part.in_end == weight.cols || divides(part.in_end)));
  };
  while (group > kGroupStep && !fits()) group /= 2;
  if (fits()) {
    while (group > kGroupStep && group / 2 >= part.in_end - part.in_begin) group /= 2;
    return group;
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "columns [", part.in_begin, ", ", part.in_end, ") of a weight of ", weight.rows, " x ",
      weight.cols, " in groups of ", weight.group, "; expected groups and borders at multiples of ",
      kGroupStep, ": take a checkpoint of other groups, or fewer ranks"));
}

}  // namespace baton::kernels
