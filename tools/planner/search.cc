#include "tools/planner/search.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <map>
#include <tuple>

#include "common/base/status.h"

namespace baton::planner {
namespace {

// How often batches or roles are changed for one number of workers.
constexpr int kTurns = 3;
constexpr int kHalvings = 6;

int32_t PowerOfTwoAtMost(int32_t number) {
  int32_t power = 1;
  while (power <= number / 2) power *= 2;
  return power;
}

// A kind of cluster, of which only the number of workers is open.
struct Family {
  const BuildBounds* of = nullptr;
  bool unified = true;

  int32_t least() const {
    const Bounds& bounds = of->bounds;
    return unified ? bounds.unified : bounds.prefill + bounds.decode;
  }
};

class Searcher final {
 public:
  explicit Searcher(const Question& question) : question_(question) {}

  absl::StatusOr<Plan> Run();

 private:
  // The first number of workers that keeps the SLO, as far as it is no dearer than what is known.
  absl::Status SearchFamily(const Family& family);
  // Whether so many workers do.
  absl::StatusOr<bool> Does(const Family& family, int32_t workers);
  Candidate Start(const Family& family, int32_t workers) const;
  // What to try after `trial` broke the SLO; false when nothing is left to change.
  bool Change(const Family& family, const Trial& trial, Candidate* candidate) const;
  absl::StatusOr<Trial> TryOnce(const Candidate& candidate, size_t runs);
  void Keep(const Trial& trial);
  void NoteMiss(const Trial& trial);
  // The most workers of a family that may still be a better plan.
  int32_t Most(const Family& family) const;
  absl::Status SayWhatWould();
  // Simulates as many workers as there may be, where reckoning said that they are too few.
  absl::Status TryTheMost(const std::vector<Family>& families);

  const Question& question_;
  Plan plan_;
  std::vector<Trial> misses_;  // the best one of each number of devices
};

int32_t Searcher::Most(const Family& family) const {
  const WorkerBuild& build = *family.of->build;
  if (build.only_workers) return *build.only_workers;
  int32_t devices = question_.max_devices;
  if (plan_.best) devices = std::min(devices, plan_.best->candidate.devices());
  return devices / build.devices;
}

Candidate Searcher::Start(const Family& family, int32_t workers) const {
  const Bounds& bounds = family.of->bounds;
  Candidate candidate{.build = family.of->build};
  candidate.decode = workers;
  if (!family.unified) {
    const double all = bounds.prefill_share + bounds.decode_share;
    const double part = all > 0 ? bounds.prefill_share / all : 0.5;
    const auto prefill = static_cast<int32_t>(std::lround(part * workers));
    const int32_t least = std::min(bounds.prefill, workers - 1);
    candidate.prefill = std::clamp(prefill, least, std::max(least, workers - bounds.decode));
    candidate.decode = workers - candidate.prefill;
  }
  int32_t batch = PowerOfTwoAtMost(bounds.batch);
  if (const int32_t users = question_.facts.concurrency; users > 0) {
    const int32_t each = (users + candidate.decode - 1) / candidate.decode;
    int32_t enough = 1;
    while (enough < each) enough *= 2;
    batch = std::min(batch, enough);
  }
  candidate.max_num_seqs = batch;
  return candidate;
}

bool Searcher::Change(const Family& family, const Trial& trial, Candidate* candidate) const {
  const Bounds& bounds = family.of->bounds;
  const bench::SloMetric broken = trial.tightest().limit.metric;
  const bool late = broken == bench::SloMetric::kTtft;  // else tokens come slowly
  if (!family.unified) {
    const int32_t prefill = candidate->prefill + (late ? 1 : -1);
    const int32_t decode = candidate->workers() - prefill;
    if (prefill >= bounds.prefill && decode >= bounds.decode) {
      candidate->prefill = prefill;
      candidate->decode = decode;
      return true;
    }
  }
  // More places let requests in sooner, fewer make steps shorter.
  const int32_t batch = late ? candidate->max_num_seqs * 2 : candidate->max_num_seqs / 2;
  if (batch < 1 || batch > kMostSequences) return false;
  candidate->max_num_seqs = batch;
  return true;
}

absl::StatusOr<Trial> Searcher::TryOnce(const Candidate& candidate, size_t runs) {
  ++plan_.simulated;
  return Try(question_, candidate, runs);
}

void Searcher::Keep(const Trial& trial) {
  const auto rank = [](const Trial& of) {
    return std::tuple(of.candidate.devices(), of.tightest().used(), of.candidate.workers());
  };
  if (!plan_.best || rank(trial) < rank(*plan_.best)) plan_.best = trial;
}

void Searcher::NoteMiss(const Trial& trial) {
  for (Trial& known : misses_) {
    if (known.candidate.devices() != trial.candidate.devices()) continue;
    if (trial.good_share > known.good_share) known = trial;
    return;
  }
  misses_.push_back(trial);
}

absl::StatusOr<bool> Searcher::Does(const Family& family, int32_t workers) {
  Candidate candidate = Start(family, workers);
  std::vector<std::pair<int32_t, int32_t>> tried;  // prefill workers, places
  for (int turn = 0; turn < kTurns; ++turn) {
    const std::pair now = {candidate.prefill, candidate.max_num_seqs};
    if (std::ranges::find(tried, now) != tried.end()) return false;
    if (plan_.simulated >= kMostTrials) {
      plan_.cut = true;
      return false;
    }
    tried.push_back(now);
    BATON_ASSIGN_OR_RETURN(const Trial trial, TryOnce(candidate, question_.runs.size()));
    if (trial.keeps) {
      Keep(trial);
      return true;
    }
    NoteMiss(trial);
    if (!Change(family, trial, &candidate)) return false;
  }
  return false;
}

absl::Status Searcher::SearchFamily(const Family& family) {
  const std::optional<int32_t> only = family.of->build->only_workers;
  int32_t low = only ? *only - 1 : family.least() - 1;  // the most workers known not to do
  int32_t step = 1;
  int32_t high = 0;  // the fewest workers known to do; 0: none
  while (high == 0) {
    const int32_t most = Most(family);
    if (low >= most) return absl::OkStatus();
    const int32_t workers = std::min(low + step, most);
    BATON_ASSIGN_OR_RETURN(const bool does, Does(family, workers));
    if (plan_.cut) return absl::OkStatus();
    if (does) {
      high = workers;
    } else {
      low = workers;
      if (low - family.least() >= 2) step *= 2;
    }
  }
  for (int i = 0; i < kHalvings && high - low > 1; ++i) {
    const int32_t middle = (low + high) / 2;
    BATON_ASSIGN_OR_RETURN(const bool does, Does(family, middle));
    (does ? high : low) = middle;
  }
  return absl::OkStatus();
}

// Without a plan: what is missing, by reckoning and by simulations of less load.
absl::Status Searcher::SayWhatWould() {
  int32_t needed = INT_MAX;
  for (const BuildBounds& build : plan_.builds) {
    if (!build.bounds.impossible.empty() || build.build->only_workers) continue;
    const bool split = question_.roles == RolesAllowed::kSplit;
    const int32_t workers =
        split ? build.bounds.prefill + build.bounds.decode : build.bounds.unified;
    needed = std::min(needed, workers * build.build->devices);
  }
  if (needed != INT_MAX && needed > question_.max_devices) plan_.devices_needed = needed;
  if (!plan_.nearest || question_.facts.rate <= 0) return absl::OkStatus();
  double low = 0, high = 1;
  for (int i = 0; i < kHalvings; ++i) {
    const double part = (low + high) / 2;
    Question less = question_;
    less.runs.resize(1);
    for (simulator::SimRequest& request : less.runs[0].requests) {
      request.at =
          base::Duration(static_cast<int64_t>(static_cast<double>(request.at.count()) / part));
    }
    less.warmup =
        base::Duration(static_cast<int64_t>(static_cast<double>(question_.warmup.count()) / part));
    BATON_ASSIGN_OR_RETURN(const Trial trial, Try(less, plan_.nearest->candidate, 1));
    (trial.keeps ? low : high) = part;
  }
  plan_.bearable = low;
  return absl::OkStatus();
}

absl::Status Searcher::TryTheMost(const std::vector<Family>& families) {
  for (const Family& family : families) {
    const int32_t most = Most(family);
    if (most < (family.unified ? 1 : 2)) continue;
    BATON_ASSIGN_OR_RETURN(const Trial trial, TryOnce(Start(family, most), 1));
    NoteMiss(trial);
  }
  return absl::OkStatus();
}

absl::StatusOr<Plan> Searcher::Run() {
  for (const WorkerBuild& build : question_.builds) {
    plan_.builds.push_back({.build = &build, .bounds = BoundsOf(question_, build)});
  }
  std::vector<Family> families;
  for (const BuildBounds& build : plan_.builds) {
    if (!build.bounds.impossible.empty()) continue;
    const bool split = !build.build->only_workers || *build.build->only_workers > 1;
    if (question_.roles != RolesAllowed::kSplit) families.push_back({&build, true});
    if (question_.roles != RolesAllowed::kUnified && split) families.push_back({&build, false});
  }
  // What may be cheapest comes first, so that what is dearer is not looked at.
  std::ranges::stable_sort(families, {}, [](const Family& family) {
    return family.least() * family.of->build->devices;
  });
  for (const Family& family : families) BATON_RETURN_IF_ERROR(SearchFamily(family));
  if (!plan_.best && misses_.empty()) BATON_RETURN_IF_ERROR(TryTheMost(families));
  for (const Trial& miss : misses_) {
    std::optional<Trial>& slot = plan_.best ? plan_.cheaper : plan_.nearest;
    if (plan_.best && miss.candidate.devices() >= plan_.best->candidate.devices()) continue;
    if (!slot || miss.good_share > slot->good_share) slot = miss;
  }
  if (!plan_.best) BATON_RETURN_IF_ERROR(SayWhatWould());
  return std::move(plan_);
}

}  // namespace

absl::StatusOr<Plan> Search(const Question& question) { return Searcher(question).Run(); }

}  // namespace baton::planner
