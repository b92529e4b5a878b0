#include "common/config/bind.h"
#include "common/config/flag_types.h"

namespace baton {

void BindPrediction(FlagSet* set, PredictionFlags* flags) {
  const std::string group = "Prediction";
  set->Add(Common(With(
      InputFlag("predictor", &flags->predictor, "auto|off|FILE"), group,
      "what foresees the ends of answers; auto: eos_predictor.json in the model directory if it is "
      "of this model, else how long the answers so far were; never changes a token")));
  set->Add(With(Valued(TextFlag("predictor-state", &flags->state), "FILE"), group,
                "where a decode worker keeps what it learnt of lengths, over restarts; serve gives "
                "each of several workers a file of its own, FILE.1 for the second and so on"));
}

}  // namespace baton
