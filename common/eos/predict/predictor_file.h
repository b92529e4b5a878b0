#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/eos_probe.h"
#include "common/eos/predict/eos_predictor.h"

namespace baton {

inline constexpr std::string_view kPredictorFormat = "baton-eos-predictor";
inline constexpr int32_t kPredictorVersion = 1;
inline constexpr std::string_view kPredictorFileName = "eos_predictor.json";  // of a model

// What a predictor file holds; docs/eos-prediction.md describes its format.
struct PredictorFile {
  std::string model_fingerprint;  // of the model whose answers it was trained on
  std::string name;
  std::string made_by;
  std::string sha256;
  double tail_mean = 0;           // of answers that go on for more than the last bin's end
  std::optional<EosProbe> probe;  // whose products the model reads
  std::unique_ptr<EosPredictor> model;
  Calibrations calibration;
  bool reads_probe = false, reads_first_probe = false;
  // Rows that the model needs behind tokens whose signals are not known; survival needs none.
  int32_t rows_to_warm_up = 0;

  // What the model and its calibration say after the last row of `input`. Called once for every
  // row, in order; `state` has model->state_size() numbers, zeros before the first row. Empty when
  // the numbers leave what can be computed.
  std::optional<EndChances> Step(const PredictorInput& input, std::span<double> state) const;
};

// Reads the text of a predictor file. Everything that evaluation relies on is checked here. An
// error says where, what was found and what is expected.
absl::StatusOr<PredictorFile> ParsePredictorFile(std::string_view text);
// Reads the file at `path`; NOT_FOUND when there is none.
absl::StatusOr<PredictorFile> ReadPredictorFile(const std::string& path);

}  // namespace baton
