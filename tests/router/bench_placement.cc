// What a placement and a status message cost a router, by the number of workers.
//
//   bench_placement [WORKERS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "router/workers/routing_policy.h"
#include "router/workers/worker_table.h"

namespace baton {
namespace {

using SteadyTime = std::chrono::steady_clock;
constexpr WorkerKind kKinds[] = {WorkerKind::kPrefill, WorkerKind::kDecode};
constexpr int kPlacements = 200'000;

class Cluster {
 public:
  explicit Cluster(int workers) {
    for (const WorkerKind kind : kKinds) {
      for (int i = 0; i < workers; ++i) {
        const std::string address = "10.0." + std::to_string(i / 250) + "." +
                                    std::to_string(i % 250) + ":" +
                                    std::to_string(kind == WorkerKind::kDecode ? 50051 : 50052);
        addresses_[static_cast<size_t>(kind)].push_back(address);
        table_.Add(kind, address, nullptr);
        table_.Learn(kind, address,
                     {.incarnation = static_cast<uint64_t>(i + 1),
                      .fingerprint = "m",
                      .layout = {.dtype = "float32", .block_size = 16, .layers = 1},
                      .numerics = "n",
                      .protocol_major = 1,
                      .max_model_len = 8192},
                     /*accepted=*/true);
        Say(kind, i);
      }
    }
  }

  void Say(WorkerKind kind, int i) {
    table_.Update(kind, addresses_[static_cast<size_t>(kind)][static_cast<size_t>(i)],
                  {.takes_new = true,
                   .blocks_total = 10'000,
                   .share = WorkerShare{.places = 64, .prompt_tokens = 4096}},
                  now_);
  }

  // Places one request, and ends it a while later, as others are placed.
  double Place() {
    static const PairSet kNone;
    const auto begin = SteadyTime::now();
    const RoutingInput input{.decode = table_.WithPlace(WorkerKind::kDecode),
                             .prefill = table_.WithPlace(WorkerKind::kPrefill),
                             .serving_prefill = table_.Serving(WorkerKind::kPrefill),
                             .failed_pairs = kNone,
                             .now = now_};
    const auto picked = PickRoute({.tokens = 500, .peak_tokens = 1000}, input, &random_);
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

void Print(const char* what, std::vector<double>* took) {
  std::sort(took->begin(), took->end());
  const auto at = [&](double part) {
    return (*took)[static_cast<size_t>(part * static_cast<double>(took->size() - 1))];
  };
  std::printf("  %-16s p50 %7.2f us   p99 %7.2f us   max %8.2f us\n", what, at(0.5), at(0.99),
              at(1));
}

void Run(int workers) {
  Cluster cluster(workers);
  std::vector<double> placements, statuses;
  for (int i = 0; i < kPlacements; ++i) {
    placements.push_back(cluster.Place());
    const auto begin = SteadyTime::now();
    cluster.Say(kKinds[i % 2], i / 2 % workers);
    statuses.push_back(
        std::chrono::duration<double, std::micro>(SteadyTime::now() - begin).count());
  }
  std::printf("%d prefill and %d decode workers\n", workers, workers);
  Print("a placement", &placements);
  Print("a status", &statuses);
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  if (argc > 1) {
    baton::Run(std::max(1, std::atoi(argv[1])));
    return 0;
  }
  for (const int workers : {10, 100, 1000}) baton::Run(workers);
  return 0;
}
