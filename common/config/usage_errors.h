#pragma once

#include <cstddef>
#include <string>

#include "absl/status/status.h"

namespace baton {

// Gathers the errors of one command line with its variables and its file, so that whoever wrote
// them is told of all at once.
class UsageErrors final {
 public:
  // The first so many are told, of the others only how many there are.
  static constexpr size_t kMaxTold = 10;

  // Takes nothing from OK.
  void Add(const absl::Status& status);

  bool empty() const { return count_ == 0; }
  size_t count() const { return count_; }
  // OK, or INVALID_ARGUMENT with one error on each line.
  absl::Status status() const;

 private:
  size_t count_ = 0;
  std::string lines_;  // of those that are told, without the last end of line
};

}  // namespace baton
