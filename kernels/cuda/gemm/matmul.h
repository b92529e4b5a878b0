#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/collective.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/tensor_view.h"

namespace baton::kernels::cuda {

struct CublasLt;

// What decides which algorithm serves a product out [rows, out] = in [rows, in] · weightᵀ, where
// the weight is [out, in].
struct MatMulKey {
  int64_t rows = 0;  // a rung of the ladder in row_buckets.h
  int64_t out = 0;
  int64_t in = 0;
  DType out_dtype = DType::kF32;
  bool bias = false;
  bool accumulate = false;
  // Whether both operands are e4m3; element (r, c) of the result is then multiplied by in_scales[r]
  // and weight_scales[c]. Such a product has an output of 16 bits and neither bias nor
  // accumulation.
  bool fp8 = false;

  auto tie() const { return std::tuple(rows, out, in, out_dtype, bias, accumulate, fp8); }
  friend bool operator<(const MatMulKey& a, const MatMulKey& b) { return a.tie() < b.tie(); }
  friend bool operator==(const MatMulKey& a, const MatMulKey& b) { return a.tie() == b.tie(); }
};

struct MatMulOperands {
  const void* weight = nullptr;
  const void* in = nullptr;
  void* out = nullptr;
  const void* bias = nullptr;            // [out] in out_dtype
  const float* weight_scales = nullptr;  // fp8: [out]
  const float* in_scales = nullptr;      // fp8: [rows]
};

// Matrix products by cuBLASLt with sums in fp32. Each key is served by one algorithm: the fastest
// of those that the library proposes, as Prepare timed them, or the first proposal for a key that
// was not prepared. Sums that are split over blocks of threads are merged in a fixed order, so a
// product's bits do not change while its algorithm serves it, nor between tensor-parallel ranks
// that chose it together.
class MatMul final {
 public:
  // Operands are of `dtype`, outputs of that or fp32. FAILED_PRECONDITION where the library is not
  // found.
  static absl::StatusOr<std::unique_ptr<MatMul>> Create(DType dtype, StreamHandle stream);
  ~MatMul();

  // Times the proposals for `key` with the `operands` in turn, so that no cache holds a weight when
  // its turn comes; a weight of integers, which was widened just before and lies partly in a cache,
  // is the only one. Their `in` and `out` are scratch of the key's size. UNIMPLEMENTED when no
  // algorithm serves a key of fp8; for any other key that is a device fault.
  //
  // The ranks of a `collective` choose together, by the sum of their times, and get the same
  // answer. The library proposes the same to all for one key, and need not for two, so all of them
  // prepare the same keys in the same order. With null this rank chooses for itself.
  absl::Status Prepare(const MatMulKey& key, std::span<const MatMulOperands> operands,
                       Collective* collective);
  // Whether the library proposes an algorithm for `key`; the errors are Prepare's.
  absl::Status Ask(const MatMulKey& key) { return Find(key).status(); }
  // Queues the product of exactly `rows` rows, which may be fewer than the key's.
  absl::Status Run(const MatMulKey& key, int64_t rows, const MatMulOperands& operands);

  const std::string& version() const { return version_; }

 private:
  struct Plan;
  MatMul(DType dtype, StreamHandle stream);
  absl::StatusOr<std::unique_ptr<Plan>> Describe(const MatMulKey& key);
  absl::Status DescribeOperation(const MatMulKey& key, Plan& plan);
  absl::Status Propose(const MatMulKey& key, Plan& plan);
  absl::StatusOr<Plan*> Find(const MatMulKey& key);
  absl::Status SetRows(Plan& plan, int64_t rows);
  absl::Status SetPointers(Plan& plan, const MatMulKey& key, const MatMulOperands& operands);
  absl::Status Launch(Plan& plan, const void* algorithm, const MatMulKey& key,
                      const MatMulOperands& operands);
  absl::Status NoAlgorithm(const MatMulKey& key, std::string_view why) const;
  absl::StatusOr<float> Time(Plan& plan, const void* algorithm, const MatMulKey& key,
                             std::span<const MatMulOperands> operands);
  // Sets the time of each proposal that runs.
  absl::Status TimeProposals(Plan& plan, const MatMulKey& key,
                             std::span<const MatMulOperands> operands, std::span<float> times);

  const DType dtype_;
  const StreamHandle stream_;
  std::unique_ptr<CublasLt> lt_;
  std::unique_ptr<DeviceMemory> workspace_;
  std::map<MatMulKey, std::unique_ptr<Plan>> plans_;
  std::string version_;
};

}  // namespace baton::kernels::cuda
