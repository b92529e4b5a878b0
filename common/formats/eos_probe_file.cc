#include "common/formats/eos_probe_file.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <numbers>
#include <utility>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "common/base/philox.h"
#include "common/base/sha256.h"
#include "common/base/status.h"
#include "common/formats/json_reader.h"

namespace baton {
namespace {

static_assert(std::endian::native == std::endian::little, "a payload is read as it lies in memory");

constexpr char kFormat[] = "baton-probe";
constexpr int64_t kVersion = 1;
constexpr int64_t kMostHidden = 1 << 20;
constexpr int64_t kMostLayers = 1 << 16;
constexpr char kMakeOne[] = "baton eos make-probe DIR --out FILE makes one";

const char* NameOf(EosProbeKind kind) {
  return kind == EosProbeKind::kLinear ? "linear" : "random";
}

EosProbeKind ReadKind(JsonReader& reader) {
  const std::string kind = reader.String("kind", "");
  if (kind == NameOf(EosProbeKind::kLinear)) return EosProbeKind::kLinear;
  if (kind != NameOf(EosProbeKind::kRandom)) reader.Fail("kind", "\"linear\" or \"random\"");
  return EosProbeKind::kRandom;
}

// Everything but the payload.
EosProbeFile ReadHeader(JsonReader& reader) {
  EosProbeFile file;
  if (reader.String("format", "") != kFormat) reader.Fail("format", "\"baton-probe\"");
  reader.Int("version", kVersion, kVersion, std::nullopt);
  file.kind = ReadKind(reader);
  file.model_fingerprint = reader.String("model_fingerprint", "");
  if (file.model_fingerprint.empty()) {
    reader.Fail("model_fingerprint", "the fingerprint that a worker of the model logs");
  }
  file.probe.hidden = static_cast<int32_t>(reader.Int("hidden", 1, kMostHidden, std::nullopt));
  file.probe.dims = static_cast<int32_t>(reader.Int("dims", 1, kMaxEosProbeDims, std::nullopt));
  if (reader.Has("layer")) {
    file.probe.layer = static_cast<int32_t>(reader.Int("layer", 0, kMostLayers, std::nullopt));
  }
  if (reader.Has("seed")) {
    file.seed = static_cast<uint64_t>(reader.Int("seed", 0, INT64_MAX, std::nullopt));
  }
  return file;
}

std::vector<float> Floats(std::string_view bytes) {
  std::vector<float> values(bytes.size() / sizeof(float));
  std::memcpy(values.data(), bytes.data(), values.size() * sizeof(float));
  return values;
}

void AppendBytes(const std::vector<float>& values, std::string* bytes) {
  bytes->append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
}

absl::Status ReadPayload(JsonReader& reader, const std::string& path, EosProbe* probe,
                         bool with_biases) {
  std::string bytes;
  if (!absl::Base64Unescape(reader.String("payload", ""), &bytes)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": \"payload\" is not base64; copy the file again"));
  }
  const size_t directions = static_cast<size_t>(probe->dims) * static_cast<size_t>(probe->hidden);
  const size_t numbers = directions + (with_biases ? static_cast<size_t>(probe->dims) : 0);
  if (bytes.size() != numbers * sizeof(float)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": \"payload\" has ", bytes.size(), " bytes; expected ",
                     numbers * sizeof(float), ", float32 of ", probe->dims, " directions of ",
                     probe->hidden, with_biases ? " and their biases" : ""));
  }
  const std::string expected = reader.String("sha256", "");
  const std::string found = Sha256Hex(bytes);
  if (found != expected) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": the payload's sha256 is ", found,
                                                   " and the file says '", expected,
                                                   "'; it is damaged: copy it again"));
  }
  const std::string_view view(bytes);
  probe->directions = Floats(view.substr(0, directions * sizeof(float)));
  if (with_biases) probe->biases = Floats(view.substr(directions * sizeof(float)));
  return absl::OkStatus();
}

// Two independent normal numbers, by the method of Box and Muller.
std::array<double, 2> NormalPair(uint64_t seed, uint32_t direction, uint32_t pair) {
  constexpr double kTwo32 = 4294967296.0;
  const auto words = base::Philox4x32({pair, direction, 0, 0}, seed);
  const double radius = std::sqrt(-2 * std::log((words[0] + 1.0) / kTwo32));
  const double angle = 2 * std::numbers::pi * (words[1] / kTwo32);
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

double Dot(const std::vector<double>& a, const std::vector<double>& b) {
  double sum = 0;
  for (size_t i = 0; i < a.size(); ++i) sum += a[i] * b[i];
  return sum;
}

// Takes what lies along the earlier directions out of `direction`, and makes it of length 1.
void Orthonormalise(const std::vector<std::vector<double>>& earlier,
                    std::vector<double>* direction) {
  // The second round removes what rounding left in the first.
  for (int round = 0; round < 2; ++round) {
    for (const std::vector<double>& other : earlier) {
      const double along = Dot(*direction, other);
      for (size_t i = 0; i < other.size(); ++i) (*direction)[i] -= along * other[i];
    }
  }
  const double length = std::sqrt(Dot(*direction, *direction));
  for (double& value : *direction) value /= length;
}

}  // namespace

absl::StatusOr<EosProbeFile> LoadEosProbeFile(const std::string& path) {
  const auto json = ReadJsonObject(path);
  if (absl::IsNotFound(json.status())) {
    return absl::NotFoundError(
        absl::StrCat("the probe file ", path, " is not there or cannot be read; ", kMakeOne));
  }
  if (!json.ok()) return json.status();
  JsonReader reader(*json, path);
  EosProbeFile file = ReadHeader(reader);
  BATON_RETURN_IF_ERROR(reader.status());
  BATON_RETURN_IF_ERROR(ReadPayload(reader, path, &file.probe, file.kind == EosProbeKind::kLinear));
  BATON_RETURN_IF_ERROR(reader.status());
  const absl::Status checked = CheckEosProbe(file.probe);
  if (checked.ok()) return file;
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", checked.message()));
}

absl::Status CheckMadeFor(const EosProbeFile& file, const std::string& path,
                          const std::string& fingerprint) {
  if (file.model_fingerprint == fingerprint) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      "the ", NameOf(file.kind), " probe ", path, " was made for a model of fingerprint ",
      file.model_fingerprint, " and this one's is ", fingerprint,
      "; give the one of this model and of the dtype that it is computed in"));
}

std::string EosProbeFileText(const EosProbeFile& file) {
  const EosProbe& probe = file.probe;
  std::string bytes;
  AppendBytes(probe.directions, &bytes);
  if (file.kind == EosProbeKind::kLinear) {
    AppendBytes(
        probe.biases.empty() ? std::vector<float>(static_cast<size_t>(probe.dims)) : probe.biases,
        &bytes);
  }
  nlohmann::ordered_json json = {
      {"format", kFormat},         {"version", kVersion},
      {"kind", NameOf(file.kind)}, {"model_fingerprint", file.model_fingerprint},
      {"hidden", probe.hidden},    {"dims", probe.dims}};
  if (probe.layer.has_value()) json["layer"] = *probe.layer;
  if (file.seed.has_value()) json["seed"] = *file.seed;
  json["sha256"] = Sha256Hex(bytes);
  json["payload"] = absl::Base64Escape(bytes);
  return json.dump(2) + "\n";
}

absl::StatusOr<EosProbe> MakeRandomEosProbe(int32_t hidden, int32_t dims,
                                            std::optional<int32_t> layer, uint64_t seed) {
  if (dims > hidden) {
    return absl::InvalidArgumentError(absl::StrCat(dims, " directions in a hidden state of ",
                                                   hidden, "; expected at most as many"));
  }
  EosProbe probe = {.hidden = hidden, .dims = dims, .layer = layer};
  std::vector<std::vector<double>> directions;
  for (int32_t d = 0; d < std::min(dims, kMaxEosProbeDims); ++d) {
    std::vector<double> direction;
    for (int32_t i = 0; i < hidden; i += 2) {
      const auto pair = NormalPair(seed, static_cast<uint32_t>(d), static_cast<uint32_t>(i / 2));
      direction.push_back(pair[0]);
      if (i + 1 < hidden) direction.push_back(pair[1]);
    }
    Orthonormalise(directions, &direction);
    probe.directions.insert(probe.directions.end(), direction.begin(), direction.end());
    directions.push_back(std::move(direction));
  }
  BATON_RETURN_IF_ERROR(CheckEosProbe(probe));
  return probe;
}

}  // namespace baton
