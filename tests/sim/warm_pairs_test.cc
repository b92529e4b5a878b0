// Whether pushes find a warm pair in a cluster with many more pairs of workers than devices may
// have at once: a hundred prefill and a hundred decode workers, sixteen pairs each.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "router/workers/routing_policy.h"
#include "router/workers/worker_table.h"

namespace baton::sim {
namespace {

constexpr auto kPairsTick = std::chrono::milliseconds(5);
constexpr int kSide = 100;         // workers of each kind
constexpr size_t kMostPairs = 16;  // of one worker
constexpr int kTicksToWarm = 20;
constexpr int kTicksBetweenStatuses = 20;
constexpr int kTicksBetweenQuestions = 200;  // for one pair, by one router
constexpr int kTokensPerTick = 50;           // that a prefill worker computes

struct PairsOptions {
  int routers = 1;
  bool prefer_warm = true;
  double load = 0.7;  // of what prefill workers can compute
  int ticks = 3000;   // of which a third is the start, and not counted
};

struct PairsFigures {
  double warm = 0;              // pairs, of those of all pushes
  double warm_when_placed = 0;  // likewise, when the workers were chosen
  double mean_wait_ms = 0;      // of a prompt, before it is computed
  double longest_wait_ms = 0;   // but for one in a hundred
  double decode_imbalance = 0;  // requests at the fullest decode worker, by the mean
};

// Which pairs of devices there are, with the rules of PairSender and PairReceiver: where either
// worker has as many as it may, its least recently used one goes, and the new one has to ask again.
class DevicePairs final {
 public:
  void Ask(int prefill, int decode, int tick) {
    if (used_.contains({prefill, decode})) return;
    if (LeaveOldestIfFull(of_prefill_[prefill], tick)) return;
    if (LeaveOldestIfFull(of_decode_[decode], tick)) return;
    used_[{prefill, decode}] = tick + kTicksToWarm;
    of_prefill_[prefill].insert({prefill, decode});
    of_decode_[decode].insert({prefill, decode});
  }
  bool IsWarm(int prefill, int decode, int tick) const {
    const auto found = used_.find({prefill, decode});
    return found != used_.end() && found->second <= tick;
  }
  // A push goes from one to the other. Whether it finds the pair warm.
  bool Push(int prefill, int decode, int tick) {
    if (!IsWarm(prefill, decode, tick)) return false;
    used_[{prefill, decode}] = tick;
    return true;
  }
  std::vector<uint64_t> WarmOf(int prefill, int tick) {
    std::vector<uint64_t> warm;
    for (const Pair& pair : of_prefill_[prefill]) {
      if (used_[pair] <= tick) warm.push_back(static_cast<uint64_t>(pair.second) + 1);
    }
    return warm;
  }

 private:
  using Pair = std::pair<int, int>;
  bool LeaveOldestIfFull(const std::set<Pair>& pairs, int tick) {
    if (pairs.size() < kMostPairs) return false;
    const Pair oldest =
        *std::ranges::min_element(pairs, {}, [&](const Pair& pair) { return used_[pair]; });
    if (used_[oldest] > tick) return true;  // not even warm
    used_.erase(oldest);
    of_prefill_[oldest.first].erase(oldest);
    of_decode_[oldest.second].erase(oldest);
    return true;
  }

  std::map<Pair, int> used_;  // when last; in the future until it is warm
  std::map<int, std::set<Pair>> of_prefill_, of_decode_;
};

// Routers with real tables and routing in front of workers that only take their time.
class PairsCluster final {
 public:
  explicit PairsCluster(const PairsOptions& options) : options_(options) {
    for (int i = 0; i < options_.routers; ++i) {
      routers_.push_back(std::make_unique<Router>());
      for (int worker = 0; worker < kSide; ++worker) {
        Meet(WorkerKind::kPrefill, worker, &routers_.back()->table);
        Meet(WorkerKind::kDecode, worker, &routers_.back()->table);
      }
    }
  }

  PairsFigures Run() {
    for (tick_ = 0; tick_ < options_.ticks; ++tick_) {
      if (tick_ == options_.ticks / 3) StartCounting();
      now_ += kPairsTick;
      SayStatuses();
      Arrive();
      for (auto& router : routers_) Place(router.get());
      for (int worker = 0; worker < kSide; ++worker) Compute(worker);
      EndAnswers();
    }
    std::ranges::sort(waits_);
    PairsFigures figures;
    figures.warm = static_cast<double>(warm_) / static_cast<double>(pushes_);
    figures.warm_when_placed =
        static_cast<double>(warm_when_placed_) / static_cast<double>(placed_);
    for (const double wait : waits_) figures.mean_wait_ms += wait;
    figures.mean_wait_ms /= static_cast<double>(waits_.size());
    figures.longest_wait_ms = waits_[waits_.size() * 99 / 100];
    figures.decode_imbalance = imbalance_ / (options_.ticks - options_.ticks / 3);
    return figures;
  }

 private:
  struct Request {
    size_t router = 0;
    int prefill = 0, decode = 0;
    int tokens = 0, left = 0;  // of the prompt
    int arrived = 0;
    bool began = false;
    WorkerClaim prompt, attempt;
  };
  struct Router {
    WorkerTable table{{.status_fresh = std::chrono::seconds(2)}};
    std::deque<Request> queue;
    std::map<std::pair<int, int>, int> asked;
  };

  void StartCounting() {
    waits_.clear();
    pushes_ = warm_ = placed_ = warm_when_placed_ = 0;
    imbalance_ = 0;
  }

  static std::string Name(int worker) { return std::to_string(worker); }
  static WorkerKey Key(int worker) { return {Name(worker), static_cast<uint64_t>(worker) + 1}; }

  static void Meet(WorkerKind kind, int worker, WorkerTable* table) {
    table->Add(kind, Name(worker), nullptr);
    table->Learn(kind, Name(worker),
                 {.incarnation = Key(worker).incarnation,
                  .fingerprint = "m",
                  .layout = {.block_size = 16},
                  .max_model_len = 8192},
                 /*accepted=*/true);
  }

  // Each worker speaks every twentieth tick, and has what it lends divided equally.
  void SayStatuses() {
    for (int worker = tick_ % kTicksBetweenStatuses; worker < kSide;
         worker += kTicksBetweenStatuses) {
      int64_t queued = 0;
      for (const Request& request : prompts_[worker]) queued += request.left;
      const WorkerShare share{.places = 256 / options_.routers,
                              .prompt_tokens = 8192 / options_.routers};
      for (auto& router : routers_) {
        router->table.Update(WorkerKind::kPrefill, Name(worker),
                             {.takes_new = true,
                              .queued_prompt_tokens = queued,
                              .blocks_total = 4000,
                              .warm_pairs = pairs_.WarmOf(worker, tick_),
                              .share = share},
                             now_);
        router->table.Update(WorkerKind::kDecode, Name(worker),
                             {.takes_new = true,
                              .blocks_total = 4000,
                              .blocks_in_use = 100 * at_decode_[worker],
                              .share = share},
                             now_);
      }
    }
  }

  void Arrive() {
    constexpr int kMeanPrompt = 1000;
    std::poisson_distribution<int> arrivals(options_.load * kSide * kTokensPerTick / kMeanPrompt);
    for (int left = arrivals(random_); left > 0; --left) {
      Request request{.router = random_() % routers_.size(), .arrived = tick_};
      request.tokens = request.left = 100 + static_cast<int>(random_() % 1800);
      request.prompt = {.tokens = request.tokens, .computes = true};
      request.attempt = {.tokens = request.tokens, .growth_tokens = 600, .decodes = true};
      routers_[request.router]->queue.push_back(request);
    }
  }

  void Place(Router* router) {
    static const PairSet kNone;
    WorkerTable& table = router->table;
    while (!router->queue.empty()) {
      Request request = router->queue.front();
      const RoutingInput input{.decode = table.WithPlace(WorkerKind::kDecode),
                               .prefill = table.WithPlace(WorkerKind::kPrefill),
                               .serving_prefill = table.Serving(WorkerKind::kPrefill),
                               .failed_pairs = kNone,
                               .warm = options_.prefer_warm ? &table.warm_pairs() : nullptr,
                               .one_model = true,
                               .now = now_};
      const auto picked = PickRoute({.tokens = request.tokens, .peak_tokens = request.tokens + 600},
                                    input, &random_);
      const Route* const route = std::get_if<Route>(&picked);
      if (route == nullptr) return;
      request.prefill = std::stoi(route->prefill->address);
      request.decode = std::stoi(route->decode->address);
      table.Take(WorkerKind::kPrefill, Key(request.prefill), request.prompt);
      table.Take(WorkerKind::kDecode, Key(request.decode), request.attempt);
      const auto [asked, first] = router->asked.try_emplace({request.prefill, request.decode});
      if (first || tick_ - asked->second >= kTicksBetweenQuestions) {
        asked->second = tick_;
        pairs_.Ask(request.prefill, request.decode, tick_);
      }
      ++placed_;
      warm_when_placed_ += pairs_.IsWarm(request.prefill, request.decode, tick_) ? 1 : 0;
      ++at_decode_[request.decode];
      prompts_[request.prefill].push_back(std::move(request));
      router->queue.pop_front();
    }
  }

  void Compute(int worker) {
    std::deque<Request>& prompts = prompts_[worker];
    for (int left = kTokensPerTick; left > 0 && !prompts.empty();) {
      Request& request = prompts.front();
      if (!std::exchange(request.began, true)) {
        waits_.push_back(base::Milliseconds(kPairsTick * (tick_ - request.arrived)));
      }
      const int part = std::min(left, request.left);
      left -= part;
      request.left -= part;
      if (request.left > 0) return;
      ++pushes_;
      warm_ += pairs_.Push(worker, request.decode, tick_) ? 1 : 0;
      WorkerTable& table = routers_[request.router]->table;
      table.PromptDone(WorkerKind::kPrefill, Key(worker), request.prompt);
      table.Return(WorkerKind::kPrefill, Key(worker), request.prompt);
      answers_.emplace(tick_ + 200 + static_cast<int>(random_() % 400), request);
      prompts.pop_front();
    }
  }

  void EndAnswers() {
    while (!answers_.empty() && answers_.begin()->first <= tick_) {
      const Request& request = answers_.begin()->second;
      routers_[request.router]->table.Return(WorkerKind::kDecode, Key(request.decode),
                                             request.attempt);
      --at_decode_[request.decode];
      answers_.erase(answers_.begin());
    }
    int most = 0, sum = 0;
    for (const auto& [worker, count] : at_decode_) {
      most = std::max(most, count);
      sum += count;
    }
    imbalance_ += static_cast<double>(most) * kSide / std::max(1, sum);
  }

  const PairsOptions options_;
  std::mt19937_64 random_{7};
  base::Instant now_{std::chrono::hours(1)};
  int tick_ = 0;
  std::vector<std::unique_ptr<Router>> routers_;
  DevicePairs pairs_;
  std::map<int, std::deque<Request>> prompts_;  // at each prefill worker
  std::map<int, int> at_decode_;                // requests at each decode worker
  std::multimap<int, Request> answers_;         // by their last tick
  std::vector<double> waits_;
  int64_t pushes_ = 0, warm_ = 0, placed_ = 0, warm_when_placed_ = 0;
  double imbalance_ = 0;
};

PairsFigures FiguresOf(const PairsOptions& options) {
  PairsCluster cluster(options);
  const PairsFigures figures = cluster.Run();
  std::printf(
      "%2d routers, load %.1f, %s warm pairs: warm for %4.1f %% when placed, %4.1f %% when pushed; "
      "a prompt waits %.0f ms, one in 100 %.0f ms; fullest decode worker %.2f of the mean\n",
      options.routers, options.load, options.prefer_warm ? "for" : "blind to",
      100 * figures.warm_when_placed, 100 * figures.warm, figures.mean_wait_ms,
      figures.longest_wait_ms, figures.decode_imbalance);
  return figures;
}

// Routers, and the load.
class WarmPairsTest : public ::testing::TestWithParam<std::pair<int, double>> {};

TEST_P(WarmPairsTest, MostPushesFindOneAndNoPromptWaitsLongerForIt) {
  const auto [routers, load] = GetParam();
  const PairsFigures blind = FiguresOf({.routers = routers, .prefer_warm = false, .load = load});
  const PairsFigures now = FiguresOf({.routers = routers, .load = load});
  EXPECT_LT(blind.warm_when_placed, 0.2);
  EXPECT_GT(now.warm_when_placed, 0.8);
  EXPECT_GT(now.warm, 0.85);
  EXPECT_LT(now.mean_wait_ms, 1.1 * blind.mean_wait_ms + 5);
  EXPECT_LT(now.longest_wait_ms, 1.1 * blind.longest_wait_ms + 20);
  EXPECT_LT(now.decode_imbalance, 1.05 * blind.decode_imbalance);
}

INSTANTIATE_TEST_SUITE_P(Clusters, WarmPairsTest,
                         ::testing::Values(std::pair(1, 0.3), std::pair(1, 0.7), std::pair(1, 0.9),
                                           std::pair(10, 0.3), std::pair(10, 0.7),
                                           std::pair(10, 0.9)));

}  // namespace
}  // namespace baton::sim
