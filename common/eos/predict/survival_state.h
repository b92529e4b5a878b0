#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/eos/predict/learnt_survival.h"

// What was learnt while serving, in a file that outlives the process.
namespace baton {

// So that there is always a file that is whole, as WriteWholeFile does it.
absl::Status SaveSurvival(const LearntSurvival& survival, std::string_view model_fingerprint,
                          const std::string& path);

// Reads what SaveSurvival wrote. NOT_FOUND when there is no file; any other error says what is
// wrong with it, and `survival` stays as it was.
absl::Status LoadSurvival(const std::string& path, std::string_view model_fingerprint,
                          LearntSurvival* survival);

}  // namespace baton
