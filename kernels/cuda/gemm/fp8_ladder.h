#pragma once

#include <cstdint>
#include <map>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/gemm/matmul.h"

namespace baton::kernels::cuda {

// Which rung of the row ladder serves a product of fp8. The library need not have an algorithm for
// every size of one. Rows can be added to a product without a change to the others, so a rung
// without an algorithm is served by the next one above that has one.
class Fp8Ladder final {
 public:
  // Asks for an algorithm: UNIMPLEMENTED where there is none that runs; any other error ends the
  // search.
  using Ask = absl::FunctionRef<absl::Status(const MatMulKey&)>;

  // The most rows that a product of up to `max_rows` rows is padded to.
  static int64_t MostRows(int64_t max_rows);

  // The rung that serves `rows` rows of `shape`, a key whose own rows do not matter; `most` is from
  // MostRows, for at least as many rows. What was asked once is remembered, and a rung that another
  // one serves is logged once. FAILED_PRECONDITION where no rung up to `most` has an algorithm.
  absl::StatusOr<int64_t> Serve(const MatMulKey& shape, int64_t rows, int64_t most, Ask ask);

 private:
  // Asks about a key, once where the answer is that there is an algorithm or that there is none.
  absl::Status Answer(const MatMulKey& key, Ask ask);

  std::map<MatMulKey, absl::Status> answers_;
  std::map<MatMulKey, int64_t> serving_;  // rung that serves the key
};

}  // namespace baton::kernels::cuda
