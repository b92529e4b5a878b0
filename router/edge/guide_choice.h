#pragma once

#include "absl/status/statusor.h"
#include "baton/v1/inference.pb.h"
#include "common/guide/guide_compiler.h"
#include "common/sample/guide_spec.h"

namespace baton {

// The guide that a request names, which may be none. CONFLICTING_OPTIONS for two of them.
absl::StatusOr<GuideSpec> GuideOf(const v1::GenerationSpec& spec);

// Whether answers can follow `guide`; `guides` is null where there are none to be had. Compiles it,
// which takes milliseconds: call it on a pool. The error names the field as GenerationSpec does.
absl::Status CheckGuide(const GuideSpec& guide, GuideCompiler* guides);

}  // namespace baton
