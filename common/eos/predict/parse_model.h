#pragma once

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/eos/predict/eos_predictor.h"
#include "common/eos/predict/json_fields.h"
#include "common/eos/predict/model_inputs.h"

namespace baton {

// The inputs that `names`, `mean` and `scale` of `fields` list, under these keys. Products of a
// probe are known up to `probe_dims`.
absl::StatusOr<std::vector<ModelInput>> ParseInputs(const JsonFields& fields,
                                                    std::string_view names_key, int32_t probe_dims);

// The model that `fields` describe, which reads `inputs` in the order of the file.
absl::StatusOr<std::unique_ptr<EosPredictor>> ParseModel(const JsonFields& fields,
                                                         const std::vector<ModelInput>& inputs,
                                                         int32_t probe_dims);

}  // namespace baton
