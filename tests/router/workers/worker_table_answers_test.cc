// The answers of WorkerTable, which it keeps at hand, against those of looking at every worker.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "router/workers/worker_table.h"

namespace baton {
namespace {

constexpr WorkerKind kBothKinds[] = {WorkerKind::kPrefill, WorkerKind::kDecode};
constexpr int kWorkersOfAKind = 12;
constexpr base::Duration kFresh = std::chrono::seconds(2);

struct NaiveWorker {
  bool known = false, accepted = false, listed = true, suspect = false, ready = false;
  int64_t places = 0, tokens = 0, context = 0, pool = 0, seen_context = 0, seen_pool = 0;
  int32_t block = 16;
  std::string model;
  base::Instant fresh_until{};
};

class WorkerTableAnswersTest : public ::testing::Test {
 protected:
  WorkerTableAnswersTest() {
    for (const WorkerKind kind : kBothKinds) {
      of_[kind].resize(kWorkersOfAKind);
      for (int i = 0; i < kWorkersOfAKind; ++i) table_.Add(kind, std::to_string(i), nullptr);
    }
  }

  int Below(int n) { return static_cast<int>(random_() % static_cast<uint32_t>(n)); }

  void ChangeSomething() {
    const WorkerKind kind = kBothKinds[Below(2)];
    const int i = Below(kWorkersOfAKind);
    NaiveWorker* const worker = &of_[kind][static_cast<size_t>(i)];
    const std::string address = std::to_string(i);
    const int what = Below(20);
    if (what == 0) {
      *worker = {.listed = worker->listed,
                 .seen_context = worker->seen_context,
                 .seen_pool = worker->seen_pool};
      table_.Lose(kind, address);
    } else if (what == 1) {
      *worker = {};
      table_.Remove(kind, address);
      table_.Add(kind, address, nullptr);
    } else if (what == 2) {
      worker->listed = !worker->listed;
      table_.SetListed(kind, address, worker->listed);
    } else if (what == 3) {
      worker->suspect = worker->known;
      table_.MarkSuspect({address, Incarnation(kind)});
    } else if (what < 7) {
      Learn(kind, address, worker);
    } else {
      Update(kind, address, worker);
    }
  }

  void ExpectAnswersOfLookingAtAll() {
    table_.Advance(now_);
    for (const WorkerKind kind : kBothKinds) {
      std::set<std::string> open, found;
      for (int i = 0; i < kWorkersOfAKind; ++i) {
        const NaiveWorker& worker = of_[kind][static_cast<size_t>(i)];
        EXPECT_EQ(table_.IsHealthy(kind, std::to_string(i), now_), Healthy(worker));
        const bool room = worker.places >= 1 && (kind == WorkerKind::kDecode || worker.tokens >= 1);
        if (Healthy(worker) && !worker.suspect && room) open.insert(std::to_string(i));
      }
      for (const WorkerView* view : table_.WithPlace(kind)) found.insert(view->address);
      EXPECT_EQ(found, open);
    }
    ExpectContexts();
  }

  base::Instant now_{std::chrono::hours(1)};

 private:
  // MarkSuspect takes a process for one kind only.
  static uint64_t Incarnation(WorkerKind kind) { return kind == WorkerKind::kDecode ? 1 : 2; }

  void Learn(WorkerKind kind, const std::string& address, NaiveWorker* worker) {
    *worker = {.known = true,
               .accepted = Below(4) != 0,
               .listed = worker->listed,
               .seen_context = worker->seen_context,
               .seen_pool = worker->seen_pool,
               .block = Below(2) == 0 ? 16 : 32,
               .model = Below(2) == 0 ? "m" : "n"};
    const WorkerFacts facts{.incarnation = Incarnation(kind),
                            .fingerprint = worker->model,
                            .layout = {.block_size = worker->block},
                            .max_model_len = 1000};
    table_.Learn(kind, address, facts, worker->accepted);
  }

  void Update(WorkerKind kind, const std::string& address, NaiveWorker* worker) {
    const int32_t blocks = 1 + Below(80);
    const WorkerShare share{.places = Below(3), .prompt_tokens = Below(3)};
    const bool ready = Below(5) != 0;
    table_.Update(kind, address, {.takes_new = ready, .blocks_total = blocks, .share = share},
                  now_);
    if (!worker->known) return;
    worker->ready = ready;
    worker->suspect = false;
    worker->places = share.places;
    worker->tokens = share.prompt_tokens;
    worker->pool = int64_t{blocks} * worker->block;
    worker->context = std::min<int64_t>(1000, worker->pool);
    worker->fresh_until = now_ + kFresh;
    if (!worker->accepted) return;
    worker->seen_context = worker->context;
    worker->seen_pool = worker->pool;
  }

  bool Healthy(const NaiveWorker& worker) const {
    return worker.known && worker.accepted && worker.listed && worker.ready &&
           now_ <= worker.fresh_until;
  }

  void ExpectContexts() {
    int64_t healthy_context = 0, healthy_pool = 0, known_context = 0, known_pool = 0, block = 0;
    std::map<std::string, int64_t> models;
    for (const NaiveWorker& worker : of_[WorkerKind::kDecode]) {
      if (worker.listed) known_context = std::max(known_context, worker.seen_context);
      if (worker.listed) known_pool = std::max(known_pool, worker.seen_pool);
      if (!Healthy(worker)) continue;
      healthy_context = std::max(healthy_context, worker.context);
      healthy_pool = std::max(healthy_pool, worker.pool);
      block = block == 0 ? worker.block : std::min<int64_t>(block, worker.block);
      if (worker.suspect) continue;
      models[worker.model] = std::max(models[worker.model], worker.context);
    }
    EXPECT_EQ(table_.HealthyContext(now_), healthy_context);
    EXPECT_EQ(table_.AnyHealthy(WorkerKind::kDecode, now_), healthy_context > 0);
    EXPECT_EQ(table_.KnownContext(), known_context);
    EXPECT_EQ(table_.HealthyPool(now_), healthy_pool);
    EXPECT_EQ(table_.KnownPool(), known_pool);
    EXPECT_EQ(table_.BlockTokens(now_), block);
    EXPECT_EQ(table_.ServingModels(WorkerKind::kDecode), models.size());
    EXPECT_EQ(table_.ServingContext(WorkerKind::kDecode, ""), std::max(models["m"], models["n"]));
    EXPECT_EQ(table_.ServingContext(WorkerKind::kDecode, "m"), models["m"]);
    EXPECT_EQ(table_.ServingContext(WorkerKind::kDecode, "n"), models["n"]);
  }

  WorkerTable table_{{.status_fresh = kFresh, .full_backoff = std::chrono::milliseconds(200)}};
  std::map<WorkerKind, std::vector<NaiveWorker>> of_;
  std::mt19937 random_{5};
};

TEST_F(WorkerTableAnswersTest, AreThoseOfLookingAtEveryWorkerWhateverHappens) {
  for (int step = 0; step < 20'000; ++step) {
    ChangeSomething();
    ExpectAnswersOfLookingAtAll();
    now_ += std::chrono::milliseconds(Below(150));
    ExpectAnswersOfLookingAtAll();
    ASSERT_FALSE(HasFailure()) << "step " << step;
  }
}

}  // namespace
}  // namespace baton
