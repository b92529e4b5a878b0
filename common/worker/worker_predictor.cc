#include "common/worker/worker_predictor.h"

#include <filesystem>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/eos/predict/survival_state.h"
#include "common/model/weights.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

void ReadState(const std::string& path, const std::string& fingerprint, LearntSurvival* survival) {
  const absl::Status read = LoadSurvival(path, fingerprint, survival);
  if (read.ok()) {
    spdlog::info("what was learnt of lengths is read from {}", path);
  } else if (!absl::IsNotFound(read)) {
    spdlog::warn("{}: {}; lengths are learnt anew, and the file will be written over", path,
                 std::string(read.message()));
  }
}

absl::Status CheckState(const std::string& path) {
  std::error_code unknown;  // then reading it says why
  const std::filesystem::file_status found = std::filesystem::status(path, unknown);
  if (!std::filesystem::exists(found) || std::filesystem::is_regular_file(found)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat("--predictor-state is ", path,
                   ", and what is learnt is read from it at the next start, so it has to be a "
                   "file; name a path on a disk"));
}

}  // namespace

PredictionFlags FlagsOfRole(const PredictionFlags& flags, WorkerRole role) {
  PredictionFlags own = flags;
  if (role == WorkerRole::kDecode || own.state.empty()) return own;
  spdlog::warn(
      "--predictor-state is {} and a prefill worker sees no ends, so it neither reads nor writes "
      "that file; give the flag to decode workers",
      own.state);
  own.state.clear();
  return own;
}

absl::StatusOr<ChosenPredictor> ChoosePredictor(const PredictionFlags& flags,
                                                const std::string& model_dir) {
  if (flags.predictor == "off") {
    if (flags.state.empty()) return ChosenPredictor{.off = true};
    return absl::InvalidArgumentError(
        "--predictor-state is given and --predictor is off, so nothing is learnt; leave one out");
  }
  BATON_RETURN_IF_ERROR(CheckState(flags.state));
  const bool found_by_itself = flags.predictor == "auto";
  const std::string path = found_by_itself
                               ? absl::StrCat(model_dir, "/", std::string(kPredictorFileName))
                               : flags.predictor;
  auto file = ReadPredictorFile(path);
  if (file.ok()) {
    return ChosenPredictor{.file = std::make_unique<PredictorFile>(*std::move(file)),
                           .path = path,
                           .named = !found_by_itself};
  }
  if (!found_by_itself) {
    return absl::Status(file.status().code(), absl::StrCat("cannot load --predictor ",
                                                           std::string(file.status().message())));
  }
  if (!absl::IsNotFound(file.status())) {
    spdlog::warn("predictor {}; falling back to lengths learnt while serving",
                 std::string(file.status().message()));
  }
  return ChosenPredictor{};
}

const EosProbe* ProbeFor(ChosenPredictor* chosen, const EosProbe* named) {
  if (!chosen->file || !chosen->file->probe) return nullptr;
  const EosProbe& own = *chosen->file->probe;
  if (named == nullptr) return &own;
  if (EosProbeDigest(*named) == EosProbeDigest(own)) return nullptr;
  spdlog::warn(
      "the predictor '{}' reads a probe of its own, of {} directions, and --probe gives the worker "
      "another, of {}; falling back to lengths learnt while serving; leave --probe out to have the "
      "predictor",
      chosen->file->name, own.dims, named->dims);
  chosen->file.reset();
  return nullptr;
}

bool IsOfAnotherModel(const ChosenPredictor& chosen, const std::string& fingerprint) {
  return chosen.file && chosen.file->model_fingerprint != fingerprint;
}

absl::Status CheckProbeOf(ChosenPredictor* chosen, const std::string& fingerprint,
                          const ModelConfig& config) {
  if (!chosen->file || !chosen->file->probe || IsOfAnotherModel(*chosen, fingerprint)) {
    return absl::OkStatus();
  }
  const absl::Status fits = CheckProbeFits(*chosen->file->probe, config);
  if (fits.ok()) return fits;
  const std::string found =
      absl::StrCat(chosen->path, ": the predictor '", chosen->file->name, "' is of this model, ",
                   fingerprint, ", and does not fit it: ", std::string(fits.message()));
  if (chosen->named) return absl::InvalidArgumentError(found);
  spdlog::warn("{}; falling back to lengths learnt while serving", found);
  chosen->file.reset();
  return absl::OkStatus();
}

std::unique_ptr<EndPredictor> MakePredictor(ChosenPredictor chosen, const PredictionFlags& flags,
                                            const std::string& fingerprint,
                                            const std::vector<uint8_t>& boundaries) {
  if (chosen.off) {
    spdlog::info("predictor of ends: none, because --predictor is off");
    return nullptr;
  }
  if (IsOfAnotherModel(chosen, fingerprint)) {
    spdlog::warn(
        "the predictor '{}' is of the model {} and this worker serves {}; falling back to lengths "
        "learnt while serving",
        chosen.file->name, chosen.file->model_fingerprint, fingerprint);
    chosen.file.reset();
  }
  auto predictor = std::make_unique<EndPredictor>(std::move(chosen.file), boundaries);
  const std::string kind(PredictorKindName(predictor->kind()));
  const std::string version = predictor->version();
  spdlog::info("predictor of ends: {}", version.empty() ? kind : kind + " " + version);
  if (!flags.state.empty()) ReadState(flags.state, fingerprint, &predictor->survival());
  return predictor;
}

}  // namespace baton
