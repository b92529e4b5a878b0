#include "kernels/cuda/gemm/cublaslt.cuh"

#include <cuda_runtime_api.h>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/step_check.h"

namespace baton::kernels::cuda {

absl::StatusOr<std::unique_ptr<CublasLt>> CublasLt::Load() {
  auto lt = std::unique_ptr<CublasLt>(new CublasLt);
  BATON_ASSIGN_OR_RETURN(lt->library,
                         SharedLibrary::Open("libcublasLt.so.13",
                                             "install cuBLAS of CUDA 13, or name its folder in "
                                             "LD_LIBRARY_PATH"));
  const auto find = [&lt](const char* name, auto* function) {
    return lt->library->Find(name, function);
  };
  BATON_RETURN_IF_ERROR(find("cublasLtCreate", &lt->create));
  BATON_RETURN_IF_ERROR(find("cublasLtDestroy", &lt->destroy));
  BATON_RETURN_IF_ERROR(find("cublasLtGetVersion", &lt->get_version));
  BATON_RETURN_IF_ERROR(find("cublasLtGetStatusName", &lt->status_name));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmul", &lt->matmul));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmulDescCreate", &lt->desc_create));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmulDescDestroy", &lt->desc_destroy));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmulDescSetAttribute", &lt->desc_set));
  BATON_RETURN_IF_ERROR(find("cublasLtMatrixLayoutCreate", &lt->layout_create));
  BATON_RETURN_IF_ERROR(find("cublasLtMatrixLayoutDestroy", &lt->layout_destroy));
  BATON_RETURN_IF_ERROR(find("cublasLtMatrixLayoutSetAttribute", &lt->layout_set));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmulPreferenceCreate", &lt->preference_create));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmulPreferenceDestroy", &lt->preference_destroy));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmulPreferenceSetAttribute", &lt->preference_set));
  BATON_RETURN_IF_ERROR(find("cublasLtMatmulAlgoGetHeuristic", &lt->heuristic));
  BATON_RETURN_IF_ERROR(lt->Check(lt->create(&lt->handle), "starting cuBLASLt"));
  return lt;
}

CublasLt::~CublasLt() {
  if (handle != nullptr) destroy(handle);
}

absl::Status CublasLt::Check(cublasStatus_t status, std::string_view what) const {
  if (status == CUBLAS_STATUS_SUCCESS) return absl::OkStatus();
  if (status == CUBLAS_STATUS_ALLOC_FAILED) return ToStatus(cudaErrorMemoryAllocation, what);
  return DeviceFault(absl::StrCat(std::string(what), ": ", status_name(status)));
}

}  // namespace baton::kernels::cuda
