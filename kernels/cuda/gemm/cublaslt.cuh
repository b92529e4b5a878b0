#pragma once

#include <cublasLt.h>

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/shared_library.h"

namespace baton::kernels::cuda {

// cuBLASLt, loaded at run time: the functions that are used, from whichever libcublasLt is found,
// and a handle of it. This is a .cuh because, unlike the .h files of this folder, it needs CUDA's
// headers.
struct CublasLt {
  // FAILED_PRECONDITION where the library or one of its functions is not found.
  static absl::StatusOr<std::unique_ptr<CublasLt>> Load();
  ~CublasLt();
  CublasLt(const CublasLt&) = delete;
  CublasLt& operator=(const CublasLt&) = delete;

  // Turns a cublasStatus_t into a Status; `what` says what was being done. Too little memory is
  // RESOURCE_EXHAUSTED, any other error a device fault.
  absl::Status Check(cublasStatus_t status, std::string_view what) const;

  std::unique_ptr<SharedLibrary> library;
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

 private:
  CublasLt() = default;
};

}  // namespace baton::kernels::cuda
