#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace baton::batch {

// Which lines of the input are done here: those whose number, counted from 0, leaves `index` when
// it is divided by `count`.
struct BatchPart {
  int32_t index = 0;
  int32_t count = 1;

  bool Has(int64_t number_from_0) const { return number_from_0 % count == index; }
};

// "2/8"; or "index/8", where the index is that of a pod of a Kubernetes Indexed Job, in the
// environment variable JOB_COMPLETION_INDEX. INVALID_ARGUMENT for anything else.
absl::StatusOr<BatchPart> ParsePart(std::string_view text);
std::string PartText(const BatchPart& part);

}  // namespace baton::batch
