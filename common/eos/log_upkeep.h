#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace baton {

// What is done with the files of a log beside writing rows.
enum class UpkeepStep {
  kRotate,    // a full FILE becomes a part
  kCompress,  // a part becomes FILE.N.zst
  kRemove,    // the oldest parts go
};
inline constexpr size_t kUpkeepSteps = 3;
// "rotate", as metrics and messages have it.
std::string_view UpkeepStepName(UpkeepStep step);

// Counts failures of the upkeep of one log. The first of a step is told in the process's log, and
// then none until the step was done again. Thread-safe.
class LogUpkeep final {
 public:
  explicit LogUpkeep(std::string path) : path_(std::move(path)) {}

  // Counts what went wrong, nothing when `status` is OK.
  void Note(UpkeepStep step, const absl::Status& status);
  uint64_t failures(UpkeepStep step) const { return at(step).failures.load(); }

 private:
  struct Count {
    std::atomic<uint64_t> failures{0};
    std::atomic<bool> told{false};
  };
  const Count& at(UpkeepStep step) const { return counts_[static_cast<size_t>(step)]; }

  const std::string path_;
  std::array<Count, kUpkeepSteps> counts_;
};

}  // namespace baton
