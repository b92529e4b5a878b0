#include "common/sched/policy.h"

#include <string>

#include "absl/strings/str_cat.h"

namespace baton {
namespace {

bool Older(const SequenceView& a, const SequenceView& b) { return a.id < b.id; }
bool Younger(const SequenceView& a, const SequenceView& b) { return a.id > b.id; }

constexpr Policy kFcfs = {"fcfs", &Older, &Younger};

}  // namespace

absl::StatusOr<Policy> PolicyByName(std::string_view name) {
  if (name == kFcfs.name) return kFcfs;
  return absl::InvalidArgumentError(
      absl::StrCat("unknown policy \"", std::string(name), "\"; expected fcfs"));
}

}  // namespace baton
