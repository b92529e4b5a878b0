#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/model/weights.h"

namespace baton {

using kernels::DType;

absl::Status CheckProbeFits(const EosProbe& probe, const ModelConfig& config) {
  BATON_RETURN_IF_ERROR(CheckEosProbe(probe));
  if (probe.hidden != config.hidden) {
    return absl::InvalidArgumentError(
        absl::StrCat("the probe is for a hidden size of ", probe.hidden, " and the model has ",
                     config.hidden, "; give one that was made for this model"));
  }
  if (probe.layer.has_value() && *probe.layer >= config.layers) {
    return absl::InvalidArgumentError(absl::StrCat("the probe is on layer ", *probe.layer,
                                                   " and the model has ", config.layers,
                                                   " layers, which count from 0"));
  }
  return absl::OkStatus();
}

absl::StatusOr<ProbeWeights> PackProbe(const EosProbe& probe, kernels::Backend& backend) {
  ProbeWeights weights = {.layer = probe.layer.value_or(-1)};
  BATON_ASSIGN_OR_RETURN(weights.directions, backend.Pack({.data = probe.directions.data(),
                                                           .dtype = DType::kF32,
                                                           .rows = probe.dims,
                                                           .cols = probe.hidden,
                                                           .keep_precision = true},
                                                          {}));
  const auto upload = [&](const std::vector<float>& values) {
    return backend.UploadVector(
        {.data = values.data(), .dtype = DType::kF32, .cols = static_cast<int64_t>(values.size())});
  };
  if (!probe.biases.empty()) {
    BATON_ASSIGN_OR_RETURN(weights.biases, upload(probe.biases));
  }
  if (probe.layer.has_value()) {
    const std::vector<float> ones(static_cast<size_t>(probe.hidden), 1.0F);
    BATON_ASSIGN_OR_RETURN(weights.ones, upload(ones));
  }
  return weights;
}

}  // namespace baton
