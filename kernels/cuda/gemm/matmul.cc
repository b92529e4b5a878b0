#include "kernels/cuda/gemm/matmul.h"

#include <cuda_runtime_api.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "kernels/cuda/gemm/cublaslt.cuh"
#include "kernels/gpu_needs.h"
#include "kernels/step_check.h"

namespace baton::kernels::cuda {
namespace {

constexpr int kProposals = 8;
constexpr int kTimedRuns = 3;
constexpr float kNeverMs = 1e9F;  // of a proposal that there is not or that does not run
constexpr int kAlignment = 16;    // of every operand's first element, bytes

cudaDataType_t TypeOf(DType dtype) {
  if (dtype == DType::kF32) return CUDA_R_32F;
  return dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_16F;
}

template <typename T>
absl::Status Set(const CublasLt& lt, cublasLtMatmulDesc_t desc,
                 cublasLtMatmulDescAttributes_t attribute, T value) {
  return lt.Check(lt.desc_set(desc, attribute, &value, sizeof(value)), "describing a product");
}

}  // namespace

// The descriptors of a product and the chosen algorithm. In the column-major words of cuBLAS it is
// D [out, rows] = Wᵀ [out, in] · X [in, rows], so every operand is row-major for us.
struct MatMul::Plan {
  explicit Plan(const CublasLt& api) : lt(api) {}
  ~Plan() {
    if (desc != nullptr) lt.desc_destroy(desc);
    for (cublasLtMatrixLayout_t layout : {weight, in, out}) {
      if (layout != nullptr) lt.layout_destroy(layout);
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const CublasLt& lt;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t weight = nullptr;
  cublasLtMatrixLayout_t in = nullptr;
  cublasLtMatrixLayout_t out = nullptr;
  int64_t rows = 0;                                        // that the layouts have now
  std::vector<cublasLtMatmulHeuristicResult_t> proposals;  // in the library's order
  size_t chosen = 0;                                       // of the proposals
  const cublasLtMatmulAlgo_t* algorithm() const { return &proposals[chosen].algo; }
};

MatMul::MatMul(DType dtype, StreamHandle stream) : dtype_(dtype), stream_(stream) {}

MatMul::~MatMul() = default;

absl::StatusOr<std::unique_ptr<MatMul>> MatMul::Create(DType dtype, StreamHandle stream) {
  auto matmul = std::unique_ptr<MatMul>(new MatMul(dtype, stream));
  BATON_ASSIGN_OR_RETURN(matmul->lt_, CublasLt::Load());
  BATON_ASSIGN_OR_RETURN(matmul->workspace_, DeviceMemory::Allocate(kProductWorkspaceBytes));
  const size_t version = matmul->lt_->get_version();
  matmul->version_ = absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
  return matmul;
}

absl::Status MatMul::DescribeOperation(const MatMulKey& key, Plan& plan) {
  const CublasLt& lt = *lt_;
  BATON_RETURN_IF_ERROR(
      lt.Check(lt.desc_create(&plan.desc, CUBLAS_COMPUTE_32F, CUDA_R_32F), "describing a product"));
  BATON_RETURN_IF_ERROR(Set(lt, plan.desc, CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T));
  if (key.bias) {
    BATON_RETURN_IF_ERROR(
        Set(lt, plan.desc, CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    BATON_RETURN_IF_ERROR(
        Set(lt, plan.desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, TypeOf(key.out_dtype)));
  }
  if (key.fp8) {
    for (const auto mode : {CUBLASLT_MATMUL_DESC_A_SCALE_MODE, CUBLASLT_MATMUL_DESC_B_SCALE_MODE}) {
      BATON_RETURN_IF_ERROR(
          Set(lt, plan.desc, mode, int32_t{CUBLASLT_MATMUL_MATRIX_SCALE_OUTER_VEC_32F}));
    }
  }
  // The library looks at the alignment of pointers when it proposes, so any address of ours will
  // do.
  const void* const any = workspace_->data();
  return SetPointers(plan, key,
                     {.bias = any,
                      .weight_scales = static_cast<const float*>(any),
                      .in_scales = static_cast<const float*>(any)});
}

absl::Status MatMul::Propose(const MatMulKey& key, Plan& plan) {
  const CublasLt& lt = *lt_;
  cublasLtMatmulPreference_t preference = nullptr;
  BATON_RETURN_IF_ERROR(lt.Check(lt.preference_create(&preference), "asking cuBLASLt"));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    lt.preference_set(preference, attribute, &value, sizeof(value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kProductWorkspaceBytes});
  // Partial sums go to the workspace and are added in order. Sums in place would be added in any
  // order.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    prefer(operand, uint32_t{kAlignment});
  }
  plan.proposals.resize(kProposals);
  int found = 0;
  const cublasStatus_t status =
      lt.heuristic(lt.handle, plan.desc, plan.weight, plan.in, plan.out, plan.out, preference,
                   kProposals, plan.proposals.data(), &found);
  lt.preference_destroy(preference);
  plan.proposals.resize(static_cast<size_t>(std::max(0, found)));
  if (status == CUBLAS_STATUS_SUCCESS && found > 0) return absl::OkStatus();
  return NoAlgorithm(key, lt.status_name(status));
}

absl::Status MatMul::NoAlgorithm(const MatMulKey& key, std::string_view why) const {
  const std::string message = absl::StrCat(
      "cuBLASLt ", version_, " has no algorithm for ", key.rows, " x ", key.in, " by ", key.out,
      " x ", key.in, " of ", key.fp8 ? "fp8 e4m3 with scales per row" : std::string(Name(dtype_)),
      ": ", std::string(why));
  return key.fp8 ? absl::UnimplementedError(message) : DeviceFault(message);
}

absl::StatusOr<std::unique_ptr<MatMul::Plan>> MatMul::Describe(const MatMulKey& key) {
  BATON_CHECK(!key.fp8 || (!key.bias && !key.accumulate && key.out_dtype != DType::kF32))
      << "fp8 products have neither epilogue nor fp32 output";
  const CublasLt& lt = *lt_;
  auto plan = std::make_unique<Plan>(lt);
  const cudaDataType_t type = key.fp8 ? CUDA_R_8F_E4M3 : TypeOf(dtype_);
  const auto create = [&](cublasLtMatrixLayout_t* layout, cudaDataType_t of, int64_t rows,
                          int64_t cols) {
    return lt.Check(lt.layout_create(layout, of, static_cast<uint64_t>(rows),
                                     static_cast<uint64_t>(cols), rows),
                    "describing a matrix");
  };
  BATON_RETURN_IF_ERROR(DescribeOperation(key, *plan));
  BATON_RETURN_IF_ERROR(create(&plan->weight, type, key.in, key.out));
  BATON_RETURN_IF_ERROR(create(&plan->in, type, key.in, key.rows));
  BATON_RETURN_IF_ERROR(create(&plan->out, TypeOf(key.out_dtype), key.out, key.rows));
  plan->rows = key.rows;
  BATON_RETURN_IF_ERROR(Propose(key, *plan));
  return plan;
}

absl::StatusOr<MatMul::Plan*> MatMul::Find(const MatMulKey& key) {
  auto& plan = plans_[key];
  if (plan == nullptr) {
    auto described = Describe(key);
    if (!described.ok()) {
      plans_.erase(key);
      return described.status();
    }
    plan = std::move(described).value();
  }
  return plan.get();
}

absl::Status MatMul::SetRows(Plan& plan, int64_t rows) {
  if (plan.rows == rows) return absl::OkStatus();
  const uint64_t cols = static_cast<uint64_t>(rows);
  for (cublasLtMatrixLayout_t layout : {plan.in, plan.out}) {
    BATON_RETURN_IF_ERROR(
        lt_->Check(lt_->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &cols, sizeof(cols)),
                   "describing a matrix"));
  }
  plan.rows = rows;
  return absl::OkStatus();
}

absl::Status MatMul::SetPointers(Plan& plan, const MatMulKey& key, const MatMulOperands& operands) {
  if (key.bias) {
    BATON_RETURN_IF_ERROR(Set(*lt_, plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, operands.bias));
  }
  if (!key.fp8) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(
      Set(*lt_, plan.desc, CUBLASLT_MATMUL_DESC_A_SCALE_POINTER, operands.weight_scales));
  return Set(*lt_, plan.desc, CUBLASLT_MATMUL_DESC_B_SCALE_POINTER, operands.in_scales);
}

absl::Status MatMul::Launch(Plan& plan, const void* algorithm, const MatMulKey& key,
                            const MatMulOperands& operands) {
  BATON_RETURN_IF_ERROR(SetPointers(plan, key, operands));
  const float one = 1;
  const float beta = key.accumulate ? 1 : 0;
  return lt_->Check(lt_->matmul(lt_->handle, plan.desc, &one, operands.weight, plan.weight,
                                operands.in, plan.in, &beta, operands.out, plan.out, operands.out,
                                plan.out, static_cast<const cublasLtMatmulAlgo_t*>(algorithm),
                                workspace_->data(), workspace_->size(), stream_),
                    "a product");
}

absl::StatusOr<float> MatMul::Time(Plan& plan, const void* algorithm, const MatMulKey& key,
                                   std::span<const MatMulOperands> operands) {
  BATON_ASSIGN_OR_RETURN(Event begin, Event::Create(Event::Timing::kOn));
  BATON_ASSIGN_OR_RETURN(Event end, Event::Create(Event::Timing::kOn));
  for (int run = -1; run < kTimedRuns; ++run) {  // the first is to warm up
    if (run == 0) BATON_RETURN_IF_ERROR(begin.Record(stream_));
    const MatMulOperands& turn = operands[static_cast<size_t>(run + 1) % operands.size()];
    BATON_RETURN_IF_ERROR(Launch(plan, algorithm, key, turn));
  }
  BATON_RETURN_IF_ERROR(end.Record(stream_));
  BATON_RETURN_IF_ERROR(end.Synchronize());
  return Event::MillisecondsBetween(begin, end);
}

absl::Status MatMul::TimeProposals(Plan& plan, const MatMulKey& key,
                                   std::span<const MatMulOperands> operands,
                                   std::span<float> times) {
  BATON_RETURN_IF_ERROR(SetRows(plan, key.rows));
  for (size_t i = 0; i < plan.proposals.size(); ++i) {
    const auto took = Time(plan, &plan.proposals[i].algo, key, operands);
    if (took.ok()) times[i] = *took;
    // The error of a proposal that does not run must not be taken for the next launch's.
    if (!took.ok()) LastLaunchStatus("timing a product").IgnoreError();
  }
  return absl::OkStatus();
}

absl::Status MatMul::Prepare(const MatMulKey& key, std::span<const MatMulOperands> operands,
                             Collective* collective) {
  const absl::StatusOr<Plan*> found = Find(key);
  if (!found.ok() && !absl::IsUnimplemented(found.status())) return found.status();
  // A rank without a proposal sends times as well, so that the others learn of it.
  std::vector<float> times(kProposals, kNeverMs);
  if (found.ok()) BATON_RETURN_IF_ERROR(TimeProposals(**found, key, operands, times));
  if (collective != nullptr) BATON_RETURN_IF_ERROR(collective->AllReduceSumOnHost(times));
  const auto fastest = std::min_element(times.begin(), times.end());
  if (*fastest >= kNeverMs) {
    plans_.erase(key);
    return found.ok() ? NoAlgorithm(key, "no proposal ran on all ranks") : found.status();
  }
  (*found)->chosen = static_cast<size_t>(fastest - times.begin());
  return absl::OkStatus();
}

absl::Status MatMul::Run(const MatMulKey& key, int64_t rows, const MatMulOperands& operands) {
  BATON_ASSIGN_OR_RETURN(Plan* const plan, Find(key));
  BATON_RETURN_IF_ERROR(SetRows(*plan, rows));
  const absl::Status status = Launch(*plan, plan->algorithm(), key, operands);
  if (status.ok() || rows == key.rows) return status;
  // The algorithm of the rung cannot do exactly these rows, so the library proposes another one.
  LastLaunchStatus("a product").IgnoreError();
  MatMulKey exact = key;
  exact.rows = rows;
  BATON_ASSIGN_OR_RETURN(Plan* const other, Find(exact));
  return Launch(*other, other->algorithm(), exact, operands);
}

}  // namespace baton::kernels::cuda
