#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "common/config/options.h"
#include "common/eos/predict/end_predictor.h"
#include "common/formats/model_config.h"
#include "common/worker/worker_core.h"

namespace baton {

// What --predictor asks for, as far as it can be told before the model is loaded.
struct ChosenPredictor {
  bool off = false;
  std::unique_ptr<PredictorFile> file;  // may be null
  std::string path;                     // of the file
  bool named = false;                   // by the flags, and not only found beside the model
};

// The flags as they are for a worker of that role. A prefill worker sees no ends, so it has nothing
// to read or to keep: a state file is warned about and left alone.
PredictionFlags FlagsOfRole(const PredictionFlags& flags, WorkerRole role);

// Reads the file that the flags name, or that lies in the model directory. A file that was named
// must be there and whole; one that was found is warned about and left alone. INVALID_ARGUMENT for
// a state that could not be read back, as a pipe, which would also wait for somebody who writes.
absl::StatusOr<ChosenPredictor> ChoosePredictor(const PredictionFlags& flags,
                                                const std::string& model_dir);

// The probe that the model has to compute for the predictor; null when it reads none, or reads that
// of --probe, which is `named` and computed anyway; null where the flag is not given. A worker
// computes one probe: where `named` is another, the predictor's file is warned about and left
// alone, because it would read products that mean something else.
const EosProbe* ProbeFor(ChosenPredictor* chosen, const EosProbe* named);

// Whether the file is of another model than `fingerprint`, so that neither it nor the products of
// its probe mean anything here.
bool IsOfAnotherModel(const ChosenPredictor& chosen, const std::string& fingerprint);

// A file of this very model, which `config` describes, whose probe reads a state that the model
// does not have foretells nothing: an error where it was named; one that was found is warned about
// and left alone. What a file of another model reads is no matter.
absl::Status CheckProbeOf(ChosenPredictor* chosen, const std::string& fingerprint,
                          const ModelConfig& config);

// The predictor of a worker; null when it is off. A file of another model than `fingerprint` is
// warned about and left alone. What was learnt in an earlier life is read from the state file; one
// that cannot be used is warned about, and learning starts anew. Logs what foresees.
std::unique_ptr<EndPredictor> MakePredictor(ChosenPredictor chosen, const PredictionFlags& flags,
                                            const std::string& fingerprint,
                                            const std::vector<uint8_t>& boundaries);

}  // namespace baton
