#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/planner/question.h"
#include "tools/sim/sim_figures.h"

namespace baton::planner {

// A cluster that might do.
struct Candidate {
  const WorkerBuild* build = nullptr;
  int32_t prefill = 0;  // workers; 0: decode workers read prompts, too
  int32_t decode = 1;
  int32_t max_num_seqs = 64;

  bool unified() const { return prefill == 0; }
  int32_t workers() const { return prefill + decode; }
  int32_t devices() const { return workers() * build->devices; }
};

// How a limit of the SLO was kept.
struct LimitKept {
  bench::SloLimit limit;
  double at_percentile_ms = 0;  // the SLO's percentile of what was seen, in the worst run
  double share = 1;             // of requests that kept it, in the worst run

  double used() const { return at_percentile_ms / limit.limit_ms; }  // above 1: broken
};

// What simulation said of a candidate.
struct Trial {
  Candidate candidate;
  double kv_bytes = 0;    // of a worker's cache
  int64_t kv_tokens = 0;  // in it
  std::vector<simulator::SimFigures> runs;
  std::vector<LimitKept> limits;  // as the SLO has them
  double good_share = 1;          // of requests that kept all limits, refused ones not; worst run
  bool keeps = false;             // in every run, as many as the SLO wants

  // Means over the runs.
  double Mean(double (*figure)(const simulator::SimFigures&)) const;
  // The limit that is nearest to being broken, or broken most.
  const LimitKept& tightest() const;
};

// How much cache a worker of the candidate gets: all that its device leaves, or on this machine
// what its sequences can fill with the longest requests, as far as there is memory. In whole MiB.
double KvBytesOf(const Question& question, const Candidate& candidate);

// Simulates the candidate under the first `runs` runs of the load, but no more after one in which
// the SLO is broken. A run in which nobody came after the warm-up is an error, NobodyCounted().
absl::StatusOr<Trial> Try(const Question& question, const Candidate& candidate, size_t runs);

}  // namespace baton::planner
