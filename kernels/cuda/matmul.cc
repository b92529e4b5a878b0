#include "kernels/cuda/matmul.h"

#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <algorithm>
#include <array>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/cuda/shared_library.h"
#include "kernels/step_check.h"

namespace baton::kernels::cuda {
namespace {

constexpr size_t kWorkspaceBytes = size_t{32} << 20;  // what cuBLAS advises on Hopper
constexpr int kProposals = 8;
constexpr int kTimedRuns = 3;
constexpr int kAlignment = 16;  // of every operand's first element, bytes

cudaDataType_t TypeOf(DType dtype) {
  if (dtype == DType::kF32) return CUDA_R_32F;
  return dtype == DType::kBF16 ? CUDA_R_16BF : CUDA_R_16F;
}

}  // namespace

// The functions that are used, from whichever libcublasLt is found.
struct MatMul::Api {
  std::shared_ptr<SharedLibrary> library;
  cublasLtHandle_t handle = nullptr;

  decltype(&cublasLtCreate) create = nullptr;
  decltype(&cublasLtDestroy) destroy = nullptr;
  decltype(&cublasLtGetVersion) get_version = nullptr;
  decltype(&cublasLtGetStatusName) status_name = nullptr;
  decltype(&cublasLtMatmul) matmul = nullptr;
  decltype(&cublasLtMatmulDescCreate) desc_create = nullptr;
  decltype(&cublasLtMatmulDescDestroy) desc_destroy = nullptr;
  decltype(&cublasLtMatmulDescSetAttribute) desc_set = nullptr;
  decltype(&cublasLtMatrixLayoutCreate) layout_create = nullptr;
  decltype(&cublasLtMatrixLayoutDestroy) layout_destroy = nullptr;
  decltype(&cublasLtMatrixLayoutSetAttribute) layout_set = nullptr;
  decltype(&cublasLtMatmulPreferenceCreate) preference_create = nullptr;
  decltype(&cublasLtMatmulPreferenceDestroy) preference_destroy = nullptr;
  decltype(&cublasLtMatmulPreferenceSetAttribute) preference_set = nullptr;
  decltype(&cublasLtMatmulAlgoGetHeuristic) heuristic = nullptr;

  absl::Status Load();
  absl::Status Check(cublasStatus_t status, std::string_view what) const;
};

absl::Status MatMul::Api::Load() {
  BATON_ASSIGN_OR_RETURN(library,
                         SharedLibrary::Open({"libcublasLt.so.13"},
                                             "install cuBLAS of CUDA 13, or name its folder in "
                                             "LD_LIBRARY_PATH"));
  const auto find = [this](const char* name, auto* function) {
    return library->Find(name, function);
  };
  BATON_RETURN_IF_ERROR(find("cublasLtCreate", &create));
  BATON_RETURN_IF_ERROR(find("cublasLtDestroy", &destroy));
  BATON_RETURN_IF_ERROR(find("cublasLtGetVersion", &get_version));
  BATON_RETURN_IF_ERROR(find("cublasLtGetStatusName", &status_name));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmul", &matmul));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmulDescCreate", &desc_create));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmulDescDestroy", &desc_destroy));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmulDescSetAttribute", &desc_set));
  BATON_RETURN_IF_ERROR(find("cublasLtMatrixLayoutCreate", &layout_create));
  BATON_RETURN_IF_ERROR(find("cublasLtMatrixLayoutDestroy", &layout_destroy));
  BATON_RETURN_IF_ERROR(find("cublasLtMatrixLayoutSetAttribute", &layout_set));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmulPreferenceCreate", &preference_create));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmulPreferenceDestroy", &preference_destroy));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmulPreferenceSetAttribute", &preference_set));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmulAlgoGetHeuristic", &heuristic));
  return Check(create(&handle), "starting cuBLASLt");
}

absl::Status MatMul::Api::Check(cublasStatus_t status, std::string_view what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  if (status == CUBLAS_STATUS_ALLOC_FAILED) {
    return ToStatus(cudaErrorMemoryAllocation, what);
  }
  return DeviceFault(absl::StrCat(std::string(what), ": ", status_name(status)));
}

// Descriptors of a product and the chosen algorithm. In cuBLAS's column-major words: D [out, rows]
// = Wᵀ [out, in] · X [in, rows], so that every operand is row-major for us.
struct MatMul::Plan {
  explicit Plan(const Api& lt) : api(lt) {}
  ~Plan() {
    if (desc != nullptr) api.desc_destroy(desc);
    for (cublasLtMatrixLayout_t layout : {weight, in, out}) {
      if (layout != nullptr) api.layout_destroy(layout);
    }
  }
  Plan(const Plan&) = delete;
  Plan& operator=(const Plan&) = delete;

  const Api& api;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t weight = nullptr;
  cublasLtMatrixLayout_t in = nullptr;
  cublasLtMatrixLayout_t out = nullptr;
  int64_t rows = 0;                                        // that the layouts have now
  std::vector<cublasLtMatmulHeuristicResult_t> proposals;  // best first once timed
};

MatMul::MatMul(DType dtype, StreamHandle stream)
    : dtype_(dtype), stream_(stream), api_(std::make_unique<Api>()) {}

MatMul::~MatMul() {
  plans_.clear();
  if (api_->handle != nullptr) api_->destroy(api_->handle);
}

absl::StatusOr<std::unique_ptr<MatMul>> MatMul::Create(DType dtype, StreamHandle stream) {
  auto matmul = std::unique_ptr<MatMul>(new MatMul(dtype, stream));
  BATON_RETURN_IF_ERROR(matmul->api_->Load());
  BATON_ASSIGN_OR_RETURN(matmul->workspace_, DeviceMemory::Allocate(kWorkspaceBytes));
  const size_t version = matmul->api_->get_version();
  matmul->version_ = absl::StrCat(version / 10000, ".", version / 100 % 100, ".", version % 100);
  return matmul;
}

absl::StatusOr<std::unique_ptr<MatMul::Plan>> MatMul::Describe(const MatMulKey& key) {
  const Api& api = *api_;
  auto plan = std::make_unique<Plan>(api);
  const cudaDataType_t type = TypeOf(dtype_);
  const cudaDataType_t out_type = TypeOf(key.out_dtype);
  const auto create = [&](cublasLtMatrixLayout_t* layout, cudaDataType_t of, int64_t rows,
                          int64_t cols) {
    return api.Check(api.layout_create(layout, of, rows, cols, rows), "describing a matrix");
  };
  BATON_RETURN_IF_ERROR(api.Check(api.desc_create(&plan->desc, CUBLAS_COMPUTE_32F, CUDA_R_32F),
                                  "describing a product"));
  BATON_RETURN_IF_ERROR(create(&plan->weight, type, key.in, key.out));
  BATON_RETURN_IF_ERROR(create(&plan->in, type, key.in, key.rows));
  BATON_RETURN_IF_ERROR(create(&plan->out, out_type, key.out, key.rows));
  plan->rows = key.rows;
  const auto set = [&](cublasLtMatmulDescAttributes_t attribute, auto value) {
    return api.Check(api.desc_set(plan->desc, attribute, &value, sizeof(value)),
                     "describing a product");
  };
  BATON_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_TRANSA, CUBLAS_OP_T));
  if (key.bias) {
    BATON_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_BIAS));
    BATON_RETURN_IF_ERROR(set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, out_type));
  }

  cublasLtMatmulPreference_t preference = nullptr;
  BATON_RETURN_IF_ERROR(api.Check(api.preference_create(&preference), "asking cuBLASLt"));
  const auto prefer = [&](cublasLtMatmulPreferenceAttributes_t attribute, auto value) {
    api.preference_set(preference, attribute, &value, sizeof(value));
  };
  prefer(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, uint64_t{kWorkspaceBytes});
  // Partial sums go to the workspace and are added in order; sums in place would come in any order.
  prefer(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
         uint32_t{CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE});
  for (const auto operand :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES}) {
    prefer(operand, uint32_t{kAlignment});
  }
  plan->proposals.resize(kProposals);
  int found = 0;
  const cublasStatus_t status =
      api.heuristic(api.handle, plan->desc, plan->weight, plan->in, plan->out, plan->out,
                    preference, kProposals, plan->proposals.data(), &found);
  api.preference_destroy(preference);
  plan->proposals.resize(std::max(0, found));
  if (status != CUBLAS_STATUS_SUCCESS || found == 0) {
    return DeviceFault(absl::StrCat("cuBLASLt has no algorithm for ", key.rows, " x ", key.in,
                                    " by ", key.out, " x ", key.in, " in ",
                                    std::string(Name(dtype_)), ": ", api.status_name(status)));
  }
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
        api_->Check(api_->layout_set(layout, CUBLASLT_MATRIX_LAYOUT_COLS, &cols, sizeof(cols)),
                    "describing a matrix"));
  }
  plan.rows = rows;
  return absl::OkStatus();
}

absl::Status MatMul::Launch(Plan& plan, const void* algorithm, const MatMulKey& key,
                            const MatMulOperands& operands) {
  if (key.bias) {
    BATON_RETURN_IF_ERROR(api_->Check(api_->desc_set(plan.desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER,
                                                     &operands.bias, sizeof(operands.bias)),
                                      "describing a product"));
  }
  const float one = 1;
  const float beta = key.accumulate ? 1 : 0;
  return api_->Check(api_->matmul(api_->handle, plan.desc, &one, operands.weight, plan.weight,
                                  operands.in, plan.in, &beta, operands.out, plan.out, operands.out,
                                  plan.out, static_cast<const cublasLtMatmulAlgo_t*>(algorithm),
                                  workspace_->data(), workspace_->size(), stream_),
                     "a product");
}

absl::StatusOr<float> MatMul::Time(Plan& plan, const void* algorithm, const MatMulKey& key,
                                   std::span<const void* const> weights,
                                   const MatMulOperands& operands) {
  BATON_ASSIGN_OR_RETURN(Event begin, Event::Create(Event::Timing::kOn));
  BATON_ASSIGN_OR_RETURN(Event end, Event::Create(Event::Timing::kOn));
  MatMulOperands turn = operands;
  for (int run = -1; run < kTimedRuns; ++run) {  // the first is to warm up
    if (run == 0) BATON_RETURN_IF_ERROR(begin.Record(stream_));
    turn.weight = weights[static_cast<size_t>(run + 1) % weights.size()];
    BATON_RETURN_IF_ERROR(Launch(plan, algorithm, key, turn));
  }
  BATON_RETURN_IF_ERROR(end.Record(stream_));
  BATON_RETURN_IF_ERROR(end.Synchronize());
  return Event::MillisecondsBetween(begin, end);
}

absl::Status MatMul::Prepare(const MatMulKey& key, std::span<const void* const> weights,
                             const void* in, void* out) {
  BATON_ASSIGN_OR_RETURN(Plan* const plan, Find(key));
  BATON_RETURN_IF_ERROR(SetRows(*plan, key.rows));
  // Any values do as bias: the weight's are there.
  const MatMulOperands operands = {.in = in, .out = out, .bias = weights[0]};
  std::vector<std::pair<float, size_t>> times;
  for (size_t i = 0; i < plan->proposals.size(); ++i) {
    const auto took = Time(*plan, &plan->proposals[i].algo, key, weights, operands);
    if (took.ok()) times.emplace_back(*took, i);
  }
  if (times.empty()) {
    return DeviceFault(absl::StrCat("no proposal of cuBLASLt ran for ", key.rows, " rows of ",
                                    key.in, " by ", key.out));
  }
  std::swap(plan->proposals[0],
            plan->proposals[std::min_element(times.begin(), times.end())->second]);
  return absl::OkStatus();
}

absl::Status MatMul::Run(const MatMulKey& key, int64_t rows, const MatMulOperands& operands) {
  BATON_ASSIGN_OR_RETURN(Plan* const plan, Find(key));
  BATON_RETURN_IF_ERROR(SetRows(*plan, rows));
  const absl::Status status = Launch(*plan, &plan->proposals[0].algo, key, operands);
  if (status.ok() || rows == key.rows) return status;
  // An algorithm of the rung that cannot do exactly these rows: the library proposes another.
  MatMulKey exact = key;
  exact.rows = rows;
  BATON_ASSIGN_OR_RETURN(Plan* const other, Find(exact));
  return Launch(*other, &other->proposals[0].algo, exact, operands);
}

}  // namespace baton::kernels::cuda
