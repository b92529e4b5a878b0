// What a placement and a status message cost a router, by the number of workers, and ten routers
// of one machine at once, each of which knows all workers. By score, each worker has reported as
// many blocks as fit into what a router knows, of prompts that many of them share. And what a pass
// through a queue costs in which many wait for workers that are full, while others have places.
//
//   bench_placement [WORKERS [ROUTERS]]
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "router/placement/choose_place.h"
#include "router/placement/request_queue.h"
#include "router/workers/routing_policy.h"
#include "router/workers/worker_table.h"

namespace baton {
namespace {

using SteadyTime = std::chrono::steady_clock;
constexpr int kPlacements = 200'000;
// All workers but the first decode worker are smaller than this.
constexpr int32_t kCommonContext = 8192;

double ThreadCpuMicroseconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) * 1e6 + static_cast<double>(time.tv_nsec) / 1e3;
}

class Cluster {
 public:
  explicit Cluster(int workers) : workers_(workers) {
    for (const WorkerKind kind : kWorkerKinds) {
      for (int i = 0; i < workers; ++i) {
        const std::string address = "10.0." + std::to_string(i / 250) + "." +
                                    std::to_string(i % 250) + ":" +
                                    std::to_string(kind == WorkerKind::kDecode ? 50051 : 50052);
        addresses_[static_cast<size_t>(kind)].push_back(address);
        table_.Add(kind, address, nullptr);
        table_.Learn(kind, address,
                     {.incarnation = IncarnationOf(kind, i),
                      .fingerprint = "m",
                      .layout = {.dtype = "float32", .block_size = 16, .layers = 1},
                      .numerics = "n",
                      .protocol_major = 1,
                      .max_model_len = i == 0 && kind == WorkerKind::kDecode ? 2 * kCommonContext
                                                                             : kCommonContext},
                     /*accepted=*/true);
        Say(kind, i);
      }
    }
  }

  // No two processes have the same.
  uint64_t IncarnationOf(WorkerKind kind, int i) const {
    return static_cast<uint64_t>(kind == WorkerKind::kDecode ? i + 1 : workers_ + i + 1);
  }
  // A prefill worker has warm pairs with sixteen decode workers, one more or less than before.
  void Say(WorkerKind kind, int i) {
    std::vector<uint64_t> warm;
    if (kind == WorkerKind::kPrefill) {
      const int first = 16 * i + static_cast<int>(said_++ % 2);
      for (int pair = first; pair < first + 16; ++pair) {
        warm.push_back(static_cast<uint64_t>(pair % workers_ + 1));
      }
    }
    table_.Update(kind, addresses_[static_cast<size_t>(kind)][static_cast<size_t>(i)],
                  {.takes_new = true,
                   .blocks_total = 10'000,
                   .warm_pairs = std::move(warm),
                   .share = WorkerShare{.places = 64, .prompt_tokens = 4096}},
                  now_);
  }

  // Of prompts of 64 blocks that several workers have, and no less of them if there are many.
  void Report() {
    const size_t of_each =
        std::min<size_t>(kMostReportedBlocks,
                         PrefixHints::kMaxKnown / 2 / static_cast<size_t>(workers_)) /
        kBlocks;
    for (const WorkerKind kind : kWorkerKinds) {
      for (int i = 0; i < workers_; ++i) {
        PrefixReport report{.whole = true, .version = 1};
        for (size_t n = 0; n < of_each; ++n) {
          const PrefixChain chain = Prompt(random_() % kPrompts, kBlocks);
          report.added.insert(report.added.end(), chain.blocks.begin(), chain.blocks.end());
        }
        hints_.Report(
            {addresses_[static_cast<size_t>(kind)][static_cast<size_t>(i)], IncarnationOf(kind, i)},
            report, now_);
      }
    }
  }
  // The first `blocks` of a prompt, of which 64 are shared.
  static PrefixChain Prompt(uint64_t which, size_t blocks) {
    PrefixChain chain{.tokens = static_cast<int64_t>(16 * blocks + 1), .blocks = {}};
    std::mt19937_64 hashes(which);
    for (size_t i = 0; i < blocks; ++i) chain.blocks.push_back(hashes());
    return chain;
  }
  // Of a prompt that begins like others and goes on for 8000 tokens.
  void PlaceByScore() {
    const auto prefix = std::make_shared<PrefixChain>(Prompt(random_() % kPrompts, kBlocks));
    while (prefix->blocks.size() < 500) prefix->blocks.push_back(random_());
    prefix->tokens = 8000;
    Place({.tokens = 8000, .peak_tokens = 8100, .prefix = prefix}, Routing::kScore);
  }

  // Places one request, and ends it a while later, as others are placed.
  double Place(const RoutingNeed& need, Routing routing = Routing::kLoad) {
    static const PairSet kNone;
    const auto begin = SteadyTime::now();
    const RoutingInput input{.decode = table_.WithPlace(WorkerKind::kDecode),
                             .prefill = table_.WithPlace(WorkerKind::kPrefill),
                             .serving_prefill = table_.Serving(WorkerKind::kPrefill),
                             .failed_pairs = kNone,
                             .routing = routing,
                             .hints = &hints_,
                             .table = &table_,
                             .warm = &table_.warm_pairs(),
                             .one_model = true,
                             .now = now_};
    const auto picked = PickRoute(need, input, &random_);
    const Route* const route = std::get_if<Route>(&picked);
    if (route != nullptr) {
      const WorkerKey prefill = route->prefill->key();
      const WorkerKey decode = route->decode->key();
      table_.Take(WorkerKind::kPrefill, prefill, prompt_);
      table_.Take(WorkerKind::kDecode, decode, attempt_);
      running_.emplace_back(prefill, decode);
    }
    const double took =
        std::chrono::duration<double, std::micro>(SteadyTime::now() - begin).count();
    if (running_.size() > 4000) {
      const auto [prefill, decode] = running_[next_end_ % running_.size()];
      table_.PromptDone(WorkerKind::kPrefill, prefill, prompt_);
      table_.Return(WorkerKind::kPrefill, prefill, prompt_);
      table_.Return(WorkerKind::kDecode, decode, attempt_);
      std::swap(running_[next_end_++ % running_.size()], running_.back());
      running_.pop_back();
    }
    return took;
  }

 private:
  static constexpr uint64_t kPrompts = 5000;
  static constexpr size_t kBlocks = 64;
  const int workers_;
  PrefixHints hints_;
  uint64_t said_ = 0;
  WorkerTable table_{
      {.status_fresh = std::chrono::hours(24), .full_backoff = std::chrono::milliseconds(200)}};
  std::vector<std::string> addresses_[2];
  const WorkerClaim prompt_{.tokens = 500, .computes = true};
  const WorkerClaim attempt_{.tokens = 500, .growth_tokens = 500, .decodes = true};
  std::vector<std::pair<WorkerKey, WorkerKey>> running_;
  size_t next_end_ = 0;
  base::Instant now_{std::chrono::hours(1)};
  std::mt19937_64 random_{1};
};

// A queue before workers of which some are full.
class Crowd {
 public:
  // Half of the decode workers are large and full, the others small and idle; prefill workers are
  // full, if there are any.
  Crowd(int workers, bool with_prefill) {
    for (int i = 0; i < workers; ++i) {
      const bool large = i < workers / 2 || with_prefill;
      const bool full = large && !with_prefill;
      Meet(WorkerKind::kDecode, i, large ? 16 * kCommonContext : kCommonContext, full ? 0 : 64);
      if (with_prefill) Meet(WorkerKind::kPrefill, i, 16 * kCommonContext, 0);
    }
    local_below_ = with_prefill ? 64 : 0;
  }
  void Add(int tenants, int of_each) {
    for (int i = 0; i < tenants * of_each; ++i) {
      const bool added = queue_
                             .Add({.id = static_cast<uint64_t>(i),
                                   .arrived = now_ + std::chrono::milliseconds(i),
                                   .need = {.tokens = 2000, .peak_tokens = 2 * kCommonContext + i},
                                   .tenant = std::to_string(i % tenants)})
                             .ok();
      if (!added) std::abort();
    }
  }
  // One pass in which nobody gets a place.
  double Pass() {
    static const PairSet kNone;
    const PlacementView view{
        .workers = table_, .failed_pairs = kNone, .local_prefill_below = local_below_, .now = now_};
    const auto begin = SteadyTime::now();
    RequestQueue::Passage passage = PassageOf(view);
    passage.place = [&](const RequestQueue::Waiting& waiting, const RequestQueue::Ahead& ahead) {
      ChosenPlace place;
      return ChoosePlace(view, waiting.need, ahead, &random_, &place);
    };
    passage.hopeless = [](const auto&, base::Instant) { return false; };
    queue_.Pass(now_, passage);
    return std::chrono::duration<double, std::micro>(SteadyTime::now() - begin).count();
  }

 private:
  void Meet(WorkerKind kind, int i, int32_t context, int64_t places) {
    const std::string address = std::to_string(i);
    table_.Add(kind, address, nullptr);
    table_.Learn(kind, address,
                 {.incarnation = ++processes_,
                  .fingerprint = "m",
                  .layout = {.dtype = "float32", .block_size = 16, .layers = 1},
                  .protocol_major = 1,
                  .max_model_len = context},
                 /*accepted=*/true);
    table_.Update(kind, address,
                  {.takes_new = true,
                   .blocks_total = 10'000,
                   .share = WorkerShare{.places = places, .prompt_tokens = 1'000'000}},
                  now_);
  }

  WorkerTable table_{{.status_fresh = std::chrono::hours(24), .full_backoff = {}}};
  RequestQueue queue_{1 << 20};
  int64_t local_below_ = 0;
  uint64_t processes_ = 0;
  base::Instant now_{std::chrono::hours(1)};
  std::mt19937_64 random_{1};
};

struct Figures {
  std::vector<double> placements, by_score, rare_placements, statuses;  // microseconds of the clock
  std::vector<double> passes_for_large, passes_for_prefill;
  double status_cpu = 0;  // microseconds each, in all
};

void Passes(int workers, bool with_prefill, std::vector<double>* took) {
  Crowd crowd(workers, with_prefill);
  crowd.Add(/*tenants=*/8, /*of_each=*/1250);
  for (int i = 0; i < 200; ++i) took->push_back(crowd.Pass());
}

// One router's work. The statuses are timed one by one between placements, and counted in CPU time
// in one go, because reading that clock costs as much as a status.
Figures Work(int workers) {
  Cluster cluster(workers);
  Figures figures;
  for (int i = 0; i < kPlacements; ++i) {
    figures.placements.push_back(cluster.Place({.tokens = 500, .peak_tokens = 1000}));
    const auto begin = SteadyTime::now();
    cluster.Say(kWorkerKinds[i % 2], i / 2 % workers);
    figures.statuses.push_back(
        std::chrono::duration<double, std::micro>(SteadyTime::now() - begin).count());
  }
  for (int i = 0; i < kPlacements / 10; ++i) {
    figures.rare_placements.push_back(
        cluster.Place({.tokens = 500, .peak_tokens = kCommonContext + 1}));
  }
  cluster.Report();
  for (int i = 0; i < kPlacements / 10; ++i) {
    const double before = ThreadCpuMicroseconds();
    cluster.PlaceByScore();
    figures.by_score.push_back(ThreadCpuMicroseconds() - before);
  }
  const double begin = ThreadCpuMicroseconds();
  for (int i = 0; i < kPlacements; ++i) cluster.Say(kWorkerKinds[i % 2], i / 2 % workers);
  figures.status_cpu = (ThreadCpuMicroseconds() - begin) / kPlacements;
  Passes(workers, /*with_prefill=*/false, &figures.passes_for_large);
  Passes(workers, /*with_prefill=*/true, &figures.passes_for_prefill);
  return figures;
}

void Print(const char* what, std::vector<double>* took) {
  std::sort(took->begin(), took->end());
  const auto at = [&](double part) {
    return (*took)[static_cast<size_t>(part * static_cast<double>(took->size() - 1))];
  };
  std::printf("  %-40s p50 %7.2f us   p99 %7.2f us   max %8.2f us\n", what, at(0.5), at(0.99),
              at(1));
}

void Run(int workers, int routers) {
  std::vector<Figures> of(static_cast<size_t>(routers));
  std::vector<std::thread> threads;
  for (Figures& figures : of) threads.emplace_back([&] { figures = Work(workers); });
  for (std::thread& thread : threads) thread.join();
  Figures all;
  for (const Figures& one : of) {
    const auto append = [](std::vector<double>* to, const std::vector<double>& what) {
      to->insert(to->end(), what.begin(), what.end());
    };
    append(&all.placements, one.placements);
    append(&all.by_score, one.by_score);
    append(&all.rare_placements, one.rare_placements);
    append(&all.statuses, one.statuses);
    append(&all.passes_for_large, one.passes_for_large);
    append(&all.passes_for_prefill, one.passes_for_prefill);
    all.status_cpu += one.status_cpu / routers;
  }
  std::printf("%d prefill and %d decode workers, %d router%s at once\n", workers, workers, routers,
              routers == 1 ? "" : "s");
  Print("a placement", &all.placements);
  Print("CPU of one by score, of 8000 tokens", &all.by_score);
  Print("one that a single worker could take", &all.rare_placements);
  Print("a status", &all.statuses);
  Print("a pass, 10 000 wait for the large half", &all.passes_for_large);
  Print("a pass, 10 000 wait for prefill workers", &all.passes_for_prefill);
  std::printf("  %-40s %.2f us\n", "CPU of a status, mean", all.status_cpu);
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  const auto number = [&](int at, int otherwise) {
    return argc > at ? std::max(1, std::atoi(argv[at])) : otherwise;
  };
  if (argc > 1) {
    baton::Run(number(1, 1000), number(2, 1));
    return 0;
  }
  for (const int workers : {10, 100, 1000}) baton::Run(workers, 1);
  baton::Run(1000, 10);
  return 0;
}
