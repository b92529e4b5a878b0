#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "baton/v1/model.pb.h"
#include "tools/eos/collect/collect_store.h"

namespace baton {

// What DIR/manifest.json says of a folder: what was asked, of which model, and what came of it.
struct CollectManifest {
  std::string prompts_path;  // as it was given
  std::string prompts_sha256;
  int64_t prompts = 0;
  CollectGrid grid;
  v1::GetModelInfoResponse model;
  CollectCounts counts;
  int64_t width = 0;
  int64_t requests = 0;  // of the whole grid
  int64_t failed = 0;    // in the last run
};

constexpr char kManifest[] = "manifest.json";

// Refuses, with what differs, to go on in a folder whose answers are those of another grid, other
// prompts, another model or another sampler. OK where it holds none.
absl::Status CheckManifest(const std::string& folder, const CollectManifest& manifest);

// Writes it, with the size and the SHA-256 of each file.
absl::Status WriteManifest(const std::string& folder, const CollectManifest& manifest);

}  // namespace baton
