#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/eos_probe.h"

namespace baton {

// What the directions of a probe file are.
enum class EosProbeKind {
  kLinear,  // trained on one model, and meaningless on another
  kRandom,  // projections to record, from which a probe is trained later
};

// A probe as it stands in a file. docs/eos-probes.md describes the format.
struct EosProbeFile {
  EosProbeKind kind = EosProbeKind::kRandom;
  std::string model_fingerprint;  // of the model that it was made for, as workers log it
  std::optional<uint64_t> seed;   // what the directions of a random probe were drawn from
  EosProbe probe;
};

// Reads a probe file of at most 16 MiB. NOT_FOUND for one that cannot be read; INVALID_ARGUMENT,
// naming file, key, what was found and what was expected, for anything that is not as the format
// says, damaged numbers included.
absl::StatusOr<EosProbeFile> LoadEosProbeFile(const std::string& path);

// FAILED_PRECONDITION, naming both, when a file at `path` was made for another model than that of
// `fingerprint`.
absl::Status CheckMadeFor(const EosProbeFile& file, const std::string& path,
                          const std::string& fingerprint);

// The text of a file that LoadEosProbeFile reads back to the same.
std::string EosProbeFileText(const EosProbeFile& file);

// A probe of random directions of length 1 that are orthogonal to each other, made from `seed`
// alone. INVALID_ARGUMENT for more directions than fit into `hidden` or than a probe may have.
absl::StatusOr<EosProbe> MakeRandomEosProbe(int32_t hidden, int32_t dims,
                                            std::optional<int32_t> layer, uint64_t seed);

}  // namespace baton
