#include "common/base/eos_probe.h"

#include <algorithm>
#include <cmath>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/sha256.h"

namespace baton {
namespace {

bool AllFinite(const std::vector<float>& values) {
  return std::all_of(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
}

}  // namespace

absl::Status CheckEosProbe(const EosProbe& probe) {
  if (probe.dims < 1 || probe.dims > kMaxEosProbeDims) {
    return absl::InvalidArgumentError(
        absl::StrCat("a probe of ", probe.dims, " directions; expected 1 to ", kMaxEosProbeDims));
  }
  if (probe.hidden < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("a probe for a hidden size of ", probe.hidden, "; expected 1 or more"));
  }
  const auto dims = static_cast<size_t>(probe.dims);
  const size_t expected = dims * static_cast<size_t>(probe.hidden);
  if (probe.directions.size() != expected) {
    return absl::InvalidArgumentError(absl::StrCat("a probe of ", probe.directions.size(),
                                                   " numbers; expected ", expected, " for ",
                                                   probe.dims, " directions of ", probe.hidden));
  }
  if (!probe.biases.empty() && probe.biases.size() != dims) {
    return absl::InvalidArgumentError(absl::StrCat("a probe of ", probe.biases.size(),
                                                   " biases for ", probe.dims, " directions"));
  }
  if (probe.layer.has_value() && *probe.layer < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("a probe on layer ", *probe.layer, "; layers count from 0"));
  }
  if (!AllFinite(probe.directions) || !AllFinite(probe.biases)) {
    return absl::InvalidArgumentError("a probe with values that are not finite numbers");
  }
  return absl::OkStatus();
}

uint64_t EosProbeDigest(const EosProbe& probe) {
  std::vector<float> biases = probe.biases;
  biases.resize(static_cast<size_t>(probe.dims));  // none are zeros
  std::string bytes =
      absl::StrCat(probe.hidden, " ", probe.dims, " ", probe.layer.value_or(-1), " ");
  const auto add = [&bytes](const std::vector<float>& values) {
    bytes.append(reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float));
  };
  add(probe.directions);
  add(biases);
  const std::string digits = Sha256Hex(bytes).substr(0, 2 * sizeof(uint64_t));
  return std::max<uint64_t>(1, std::stoull(digits, nullptr, 16));
}

}  // namespace baton
