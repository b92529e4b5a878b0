#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/runtime.h"
#include "kernels/tensor_view.h"

namespace baton::kernels::cuda {

// What decides which algorithm serves a product out [rows, out] = in [rows, in] · weight [out,
// in]ᵀ.
struct MatMulKey {
  int64_t rows = 0;  // a rung of the ladder, row_buckets.h
  int64_t out = 0;
  int64_t in = 0;
  DType out_dtype = DType::kF32;
  bool bias = false;
  bool accumulate = false;

  auto tie() const { return std::tuple(rows, out, in, out_dtype, bias, accumulate); }
  friend bool operator<(const MatMulKey& a, const MatMulKey& b) { return a.tie() < b.tie(); }
  friend bool operator==(const MatMulKey& a, const MatMulKey& b) { return a.tie() == b.tie(); }
};

struct MatMulOperands {
  const void* weight = nullptr;
  const void* in = nullptr;
  void* out = nullptr;
  const void* bias = nullptr;  // [out] in out_dtype
};

// Products by cuBLASLt, sums in fp32. One algorithm per key: the fastest of what the library
// proposes, timed by Prepare, or its first proposal where a key was not prepared. Sums that are
// split over blocks are merged in a fixed order, so a product's bits do not change from run to run.
class MatMul final {
 public:
  // Operands are of `dtype`, outputs of that or fp32. FAILED_PRECONDITION where the library is not
  // found.
  static absl::StatusOr<std::unique_ptr<MatMul>> Create(DType dtype, StreamHandle stream);
  ~MatMul();

  // Times the proposals for `key` with each of `weights` in turn, so that a cache holds none of
  // them; `in` and `out` are scratch of the key's size.
  absl::Status Prepare(const MatMulKey& key, std::span<const void* const> weights, const void* in,
                       void* out);
  // Queues the product; `rows` is exact, the key's may be above it.
  absl::Status Run(const MatMulKey& key, int64_t rows, const MatMulOperands& operands);

  const std::string& version() const { return version_; }
  size_t prepared() const { return plans_.size(); }

 private:
  struct Api;
  struct Plan;
  MatMul(DType dtype, StreamHandle stream);
  absl::StatusOr<std::unique_ptr<Plan>> Describe(const MatMulKey& key);
  absl::StatusOr<Plan*> Find(const MatMulKey& key);
  absl::Status SetRows(Plan& plan, int64_t rows);
  absl::Status Launch(Plan& plan, const void* algorithm, const MatMulKey& key,
                      const MatMulOperands& operands);
  absl::StatusOr<float> Time(Plan& plan, const void* algorithm, const MatMulKey& key,
                             std::span<const void* const> weights, const MatMulOperands& operands);

  const DType dtype_;
  const StreamHandle stream_;
  std::unique_ptr<Api> api_;
  std::unique_ptr<DeviceMemory> workspace_;
  std::map<MatMulKey, std::unique_ptr<Plan>> plans_;
  std::string version_;
};

}  // namespace baton::kernels::cuda
