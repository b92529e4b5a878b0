#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/planner/bounds.h"
#include "tools/planner/trial.h"

namespace baton::planner {

// A build with what is known of it before simulation.
struct BuildBounds {
  const WorkerBuild* build = nullptr;
  Bounds bounds;
};

// What the search found.
struct Plan {
  std::optional<Trial> best;        // keeps the SLO in every run
  std::optional<Trial> cheaper;     // of those with fewer devices, the one that did best
  std::optional<Trial> nearest;     // without `best`: what did best of all
  std::vector<BuildBounds> builds;  // all, as in the question
  int32_t simulated = 0;            // candidates
  bool cut = false;                 // the bound on simulations ended the search
  // Without `best`: how many devices any cluster needs at least, where these are more than allowed;
  // and what part of the load `nearest` could bear.
  int32_t devices_needed = 0;
  std::optional<double> bearable;
};

// The fewest devices that keep the SLO and, of clusters of so many, the one that leaves it the most
// room. First what reckoning excludes is left out (bounds.h). Of what remains, the number of
// workers of each build and division of roles grows until a simulation of the load's first run
// keeps the SLO, and the number between is halved; what keeps it in all runs is a plan. The size of
// batches and the division of roles follow from what was broken. No more than `kMostTrials`
// simulations. Everything follows from the question.
absl::StatusOr<Plan> Search(const Question& question);

inline constexpr int32_t kMostTrials = 120;

}  // namespace baton::planner
