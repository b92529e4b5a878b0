#pragma once

#include <cstdint>
#include <string>

#include "tools/planner/question.h"

namespace baton::planner {

// What can be said of workers of one build without simulation. Every number is on the good side: a
// cluster below it cannot do, one above it may.
struct Bounds {
  std::string impossible;    // why no number of such workers keeps the SLO; "" when some may
  double ttft_ms = 0;        // of a request of mean length that meets nobody
  double tpot_ms = 0;        // likewise
  double prefill_share = 0;  // of the time of one worker that reading the load's prompts takes
  double decode_share = 0;   // that writing its answers takes, in the largest batches
  int32_t unified = 1;       // workers at least
  int32_t prefill = 1, decode = 1;  // at least, of a split cluster
  int32_t batch = 1;  // the most sequences of mean length whose steps keep the TPOT, and that fit
};
Bounds BoundsOf(const Question& question, const WorkerBuild& build);

}  // namespace baton::planner
