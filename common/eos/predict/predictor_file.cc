#include "common/eos/predict/predictor_file.h"

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/eos/predict/json_fields.h"
#include "common/eos/predict/parse_model.h"
#include "common/eos/predict/sealed_json.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

constexpr size_t kMostBytes = size_t{64} << 20;
constexpr int32_t kWarmUp = 32;  // the longest window whose mean models read

absl::StatusOr<EosProbe> ParseProbe(const JsonFields& fields) {
  EosProbe probe;
  if (!fields.IsNull("layer")) {
    BATON_ASSIGN_OR_RETURN(probe.layer, fields.Int("layer", 0, 1 << 16));
  }
  BATON_ASSIGN_OR_RETURN(probe.dims, fields.Int("dims", 1, kMaxEosProbeDims));
  BATON_ASSIGN_OR_RETURN(probe.hidden, fields.Int("hidden", 1, 1 << 17));
  BATON_ASSIGN_OR_RETURN(
      probe.directions,
      fields.Packed<float>("directions", int64_t{probe.dims} * int64_t{probe.hidden}));
  BATON_ASSIGN_OR_RETURN(probe.biases, fields.Packed<float>("biases", probe.dims));
  return probe;
}

absl::Status CheckBins(const JsonFields& body) {
  BATON_ASSIGN_OR_RETURN(const std::vector<double> bins, body.Numbers("bins"));
  if (std::equal(bins.begin(), bins.end(), kBinEnds.begin(), kBinEnds.end())) {
    return absl::OkStatus();
  }
  return body.Wrong("bins", "1, 2, 4, 8, 16, 32, 64, 128, 256, 1024");
}

absl::StatusOr<Calibrations> ParseCalibration(const JsonFields& body) {
  Calibrations calibrations;
  if (body.IsNull("calibration")) return calibrations;
  BATON_ASSIGN_OR_RETURN(const auto objects, body.Objects("calibration", kBins));
  if (objects.size() != kBins) {
    return body.Wrong("calibration", absl::StrCat("null or an array of ", kBins));
  }
  for (size_t bin = 0; bin < kBins; ++bin) {
    BATON_ASSIGN_OR_RETURN(calibrations[bin].x, objects[bin].Numbers("x"));
    const auto& x = calibrations[bin].x;
    BATON_ASSIGN_OR_RETURN(calibrations[bin].y,
                           objects[bin].Numbers("y", static_cast<int64_t>(x.size())));
    if (std::adjacent_find(x.begin(), x.end(), std::greater_equal<>()) != x.end()) {
      return objects[bin].Wrong("x", "logits, each above the one before");
    }
  }
  return calibrations;
}

}  // namespace

std::optional<EndChances> PredictorFile::Step(const PredictorInput& input,
                                              std::span<double> state) const {
  EndLogits logits = model->Step(input, state);
  for (size_t bin = 0; bin < kBins; ++bin) {
    if (std::isnan(logits[bin])) return std::nullopt;
    logits[bin] = calibration[bin].Apply(logits[bin]);
  }
  return ChancesOf(logits);
}

absl::StatusOr<PredictorFile> ParsePredictorFile(std::string_view text) {
  if (text.size() > kMostBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", text.size(), " bytes; expected at most ", kMostBytes));
  }
  BATON_ASSIGN_OR_RETURN(const std::string_view sealed,
                         OpenSealedJson(text, kPredictorFormat, kPredictorVersion));
  const auto json = nlohmann::json::parse(sealed, nullptr, /*allow_exceptions=*/false);
  if (json.is_discarded()) {
    return absl::InvalidArgumentError("its body is not JSON; write it anew");
  }
  BATON_ASSIGN_OR_RETURN(const JsonFields body, JsonFields::Of(json, "body"));
  PredictorFile file;
  file.sha256 = Sha256Hex(sealed);
  BATON_ASSIGN_OR_RETURN(file.model_fingerprint, body.Text("model_fingerprint"));
  BATON_ASSIGN_OR_RETURN(file.name, body.Text("name"));
  BATON_ASSIGN_OR_RETURN(file.made_by, body.Text("made_by"));
  BATON_RETURN_IF_ERROR(CheckBins(body));
  BATON_ASSIGN_OR_RETURN(file.tail_mean, body.Number("tail_mean"));
  // Not `<`, which a NaN would pass.
  if (!(file.tail_mean > kBinEnds.back() + 1 && file.tail_mean < 1e9)) {
    return body.Wrong("tail_mean", absl::StrCat("a number above ", kBinEnds.back() + 1));
  }
  if (!body.IsNull("probe")) {
    BATON_ASSIGN_OR_RETURN(const JsonFields probe, body.Object("probe"));
    BATON_ASSIGN_OR_RETURN(file.probe, ParseProbe(probe));
  }
  const int32_t dims = file.probe ? file.probe->dims : 0;
  BATON_ASSIGN_OR_RETURN(const std::vector<ModelInput> inputs, ParseInputs(body, "features", dims));
  BATON_ASSIGN_OR_RETURN(const JsonFields model, body.Object("model"));
  BATON_ASSIGN_OR_RETURN(file.model, ParseModel(model, inputs, dims));
  BATON_ASSIGN_OR_RETURN(file.calibration, ParseCalibration(body));
  file.reads_probe = file.probe.has_value();
  // Such names stand nowhere but in lists of inputs, which were checked.
  file.reads_first_probe = sealed.find("\"first_probe[") != sealed.npos;
  file.rows_to_warm_up = file.model->kind() == PredictorKind::kSurvival ? 0 : kWarmUp;
  return file;
}

absl::StatusOr<PredictorFile> ReadPredictorFile(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  if (!in) return absl::NotFoundError(absl::StrCat(path, ": ", std::strerror(errno)));
  std::ostringstream text;
  text << in.rdbuf();
  if (in.bad() || text.bad()) return absl::DataLossError(absl::StrCat(path, ": cannot be read"));
  auto file = ParsePredictorFile(std::move(text).str());
  if (file.ok()) return file;
  return absl::Status(file.status().code(),
                      absl::StrCat(path, ": ", std::string(file.status().message())));
}

}  // namespace baton
