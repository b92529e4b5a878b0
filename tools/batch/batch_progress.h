#pragma once

#include <cstdint>
#include <cstdio>
#include <string>

#include "tools/client/status_line.h"

namespace baton::batch {

// How far a batch is.
struct BatchProgress {
  double elapsed_s = 0;  // of this run
  int64_t lines = 0;     // of the part
  int64_t done = 0;      // with those of earlier runs
  int64_t done_now = 0;  // in this run
  int64_t failed = 0;    // with those of earlier runs
  int64_t under_way = 0;
  int64_t tokens = 0;    // of the answers of this run
  double cost_done = 0;  // expected cost of what was done in this run
  double cost_left = 0;  // and of what is not done
  std::string trouble;   // what the service said last, while it takes nothing
};

// "120 of 1000 lines (12 %)  3 failed  64 under way  10.2 lines/s  410 tokens/s  1 min 26 s left"
std::string ProgressText(const BatchProgress& progress);
// "8 s", "1 min 26 s", "3 h 5 min"
std::string TimeText(double seconds);

// Shows how far it is: on a terminal all the time, elsewhere every ten seconds.
class ProgressLine final {
 public:
  explicit ProgressLine(std::FILE* out);

  // `elapsed_s` says whether it is time for the next one.
  void Show(const BatchProgress& progress);
  // Something that stays.
  void Say(const std::string& text) { line_.Say(text); }
  // Takes the line away, for what is printed elsewhere.
  void Erase() { line_.Erase(); }

 private:
  StatusLine line_;
  const double every_s_;
  double next_s_;
};

}  // namespace baton::batch
