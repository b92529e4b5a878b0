#pragma once

#include <cstdio>
#include <string>

#include "tools/bench/load/load_generator.h"
#include "tools/client/status_line.h"

namespace baton::bench {

// Shows a run while it lasts: on a terminal one line that is written again and again, elsewhere a
// plain line every few seconds.
class ProgressView final {
 public:
  // `out` stays open; usually stderr.
  explicit ProgressView(std::FILE* out);

  // Names what is under way ("run 2 of 3", "rate 4.2") and starts its figures again.
  void Begin(std::string label);
  void Update(const LoadProgress& progress);
  // Writes the last figures of this label as a line that stays.
  void End();

 private:
  StatusLine line_;  // taken away in the end, so that what follows starts on an empty one
  std::string label_;
  LoadProgress last_;
  double last_written_s_ = 0;
  int64_t last_tokens_ = 0;
  double tokens_per_s_ = 0;
};

// The line "run 1 of 3  12.5 s  40 of 200 done, 8 under way, 0 failed  1234 tok/s  TTFT 31 ms".
std::string ProgressText(const std::string& label, const LoadProgress& progress,
                         double tokens_per_s);

}  // namespace baton::bench
