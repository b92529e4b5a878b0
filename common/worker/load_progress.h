#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "common/base/clock.h"

namespace baton {

// Shows that a long load of weights lives: a line after a second and then every few, none for a
// short one, and always one at the end. Not thread-safe.
class LoadProgressLog final {
 public:
  // `clock` outlives it; `say` gets a line at a time.
  LoadProgressLog(const base::Clock* clock, std::function<void(const std::string&)> say);

  // Bytes that are loaded, and all of them.
  void Note(int64_t done, int64_t total);

 private:
  const base::Clock* const clock_;
  const std::function<void(const std::string&)> say_;
  const base::Instant begin_;
  base::Instant next_;
  bool closed_ = false;
};

}  // namespace baton
