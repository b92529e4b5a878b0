#include "kernels/cuda/gemm/fp8_ladder.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/graph/row_buckets.h"
#include "spdlog/spdlog.h"

namespace baton::kernels::cuda {
namespace {

// Few rows are what a library is most likely not to have, and padding them costs little: the time
// goes into reading the weight.
constexpr int64_t kFewRows = 64;

absl::Status NoRung(const MatMulKey& key, int64_t most, const absl::Status& answer) {
  return absl::FailedPreconditionError(absl::StrCat(
      "no fp8 algorithm for ", key.rows, " rows of ", key.in, " by a weight of ", key.out, " x ",
      key.in, ", nor for more rows up to ", most, " (", std::string(answer.message()),
      "); expected one at least for the largest step: use another --max-num-batched-tokens, a "
      "newer cuBLAS, or weights that are no fp8 (--quantization none)"));
}

}  // namespace

int64_t Fp8Ladder::MostRows(int64_t max_rows) { return RowBucket(std::max(max_rows, kFewRows)); }

absl::Status Fp8Ladder::Answer(const MatMulKey& key, Ask ask) {
  if (const auto known = answers_.find(key); known != answers_.end()) return known->second;
  const absl::Status answer = ask(key);
  if (answer.ok() || absl::IsUnimplemented(answer)) answers_.emplace(key, answer);
  return answer;
}

absl::StatusOr<int64_t> Fp8Ladder::Serve(const MatMulKey& shape, int64_t rows, int64_t most,
                                         Ask ask) {
  MatMulKey own = shape;
  own.rows = RowBucket(rows);
  if (const auto known = serving_.find(own); known != serving_.end()) return known->second;
  absl::Status first = absl::OkStatus();
  for (MatMulKey key = own; key.rows <= most; key.rows = RowBucket(key.rows + 1)) {
    const absl::Status answer = Answer(key, ask);
    if (answer.ok()) {
      if (key.rows != own.rows) {
        spdlog::warn("fp8 products of {} rows of {} by a weight of {} x {} are padded to {}: {}",
                     own.rows, own.in, own.out, own.in, key.rows, std::string(first.message()));
      }
      serving_.emplace(own, key.rows);
      return key.rows;
    }
    if (!absl::IsUnimplemented(answer)) return answer;
    if (first.ok()) first = answer;
  }
  return NoRung(own, most, first);
}

}  // namespace baton::kernels::cuda
