#include "router/workers/worker_table.h"

#include <gmock/gmock.h>

#include <random>
#include <set>
#include <string>

namespace baton {
namespace {

constexpr auto kDecode = WorkerKind::kDecode;

class WorkerTableTest : public ::testing::Test {
 protected:
  void Meet(const std::string& address, uint64_t incarnation = 1) {
    table_.Add(kDecode, address, nullptr);
    table_.Learn(kDecode, address, Facts(incarnation), /*accepted=*/true);
  }
  static WorkerFacts Facts(uint64_t incarnation) {
    return {.incarnation = incarnation,
            .fingerprint = "m",
            .layout = {.block_size = 16},
            .max_model_len = 1000};
  }
  void Say(const std::string& address, int64_t places, int64_t tokens = 1000) {
    table_.Update(kDecode, address,
                  {.takes_new = true,
                   .blocks_total = 100,
                   .share = WorkerShare{.places = places, .prompt_tokens = tokens}},
                  now_);
  }
  const WorkerView& View(const std::string& address, uint64_t incarnation = 1) {
    return *table_.Find(kDecode, {address, incarnation});
  }
  size_t open() { return table_.WithPlace(kDecode).size(); }

  WorkerTable table_{
      {.status_fresh = std::chrono::seconds(2), .full_backoff = std::chrono::milliseconds(200)}};
  base::Instant now_{std::chrono::hours(1)};
  const WorkerClaim attempt_{.tokens = 100, .growth_tokens = 50, .decodes = true};
  const WorkerClaim local_{.tokens = 100, .growth_tokens = 50, .computes = true, .decodes = true};
  const WorkerClaim prompt_{.tokens = 100, .computes = true};
};

TEST_F(WorkerTableTest, PlaceIsTakenUntilTheAttemptEndsWhateverTheWorkerSays) {
  Meet("a");
  Say("a", 2);
  table_.Take(kDecode, {"a", 1}, attempt_);
  EXPECT_EQ(View("a").places_free, 1);
  Say("a", 2);  // the share holds for all that this router has there, seen by the worker or not
  EXPECT_EQ(View("a").places_free, 1);
  table_.Take(kDecode, {"a", 1}, attempt_);
  EXPECT_EQ(open(), 0u);
  table_.Return(kDecode, {"a", 1}, attempt_);
  EXPECT_EQ(open(), 1u);  // at once, without another word of the worker
}

TEST_F(WorkerTableTest, ShareMayShrinkBelowWhatIsHeld) {
  Meet("a");
  Say("a", 3);
  for (int i = 0; i < 3; ++i) table_.Take(kDecode, {"a", 1}, attempt_);
  Say("a", 1);
  table_.Return(kDecode, {"a", 1}, attempt_);
  table_.Return(kDecode, {"a", 1}, attempt_);
  EXPECT_EQ(open(), 0u);
  table_.Return(kDecode, {"a", 1}, attempt_);
  EXPECT_EQ(open(), 1u);
}

TEST_F(WorkerTableTest, OlderWorkersTellWhatIsFree) {
  Meet("a");
  table_.Take(kDecode, {"a", 1}, attempt_);
  table_.Update(kDecode, "a", {.takes_new = true, .prefill_places_free = 5}, now_);
  EXPECT_EQ(View("a").places_free, 5);
  EXPECT_GT(View("a").prompt_tokens_free, 1'000'000);
}

TEST_F(WorkerTableTest, PromptTokensAreTakenUntilThePromptIsComputed) {
  Meet("a");
  Say("a", 10, 150);
  table_.Take(kDecode, {"a", 1}, local_);
  table_.Take(kDecode, {"a", 1}, prompt_);
  EXPECT_EQ(View("a").prompt_tokens_free, -50);
  EXPECT_EQ(View("a").places_free, 8);
  table_.PromptDone(kDecode, {"a", 1}, local_);
  table_.PromptDone(kDecode, {"a", 1}, prompt_);
  EXPECT_EQ(View("a").prompt_tokens_free, 150);
  EXPECT_EQ(View("a").places_free, 9);  // who decodes there keeps its place
  table_.Return(kDecode, {"a", 1}, prompt_);
  table_.Return(kDecode, {"a", 1}, local_);
  EXPECT_EQ(View("a").places_free, 10);
}

TEST_F(WorkerTableTest, WhatWasHeldAtADeadProcessIsNotHeldAtTheNext) {
  Meet("a");
  Say("a", 2);
  table_.Take(kDecode, {"a", 1}, attempt_);
  table_.Lose(kDecode, "a");
  EXPECT_EQ(open(), 0u);
  EXPECT_FALSE(table_.IsAlive({"a", 1}));
  Meet("a", 2);
  Say("a", 2);
  EXPECT_EQ(View("a", 2).places_free, 2);
  table_.Return(kDecode, {"a", 1}, attempt_);
  EXPECT_EQ(View("a", 2).places_free, 2);
}

TEST_F(WorkerTableTest, WhatIsHeldAtAProcessStaysWhileItsWatchIsBroken) {
  Meet("a");
  Say("a", 2);
  table_.Take(kDecode, {"a", 1}, attempt_);
  table_.Take(kDecode, {"a", 1}, attempt_);
  table_.Lose(kDecode, "a");
  table_.Return(kDecode, {"a", 1}, attempt_);
  Meet("a");
  Say("a", 2);
  EXPECT_EQ(View("a").places_free, 1);
  table_.Return(kDecode, {"a", 1}, attempt_);
  EXPECT_EQ(View("a").places_free, 2);
}

TEST_F(WorkerTableTest, WhatIsHeldAtAProcessStaysWhileItsAddressIsAway) {
  Meet("a");
  Say("a", 8, 1000);
  for (int i = 0; i < 8; ++i) table_.Take(kDecode, {"a", 1}, local_);
  table_.SetListed(kDecode, "a", false);
  table_.Lose(kDecode, "a");
  table_.Remove(kDecode, "a");
  table_.PromptDone(kDecode, {"a", 1}, local_);
  table_.Return(kDecode, {"a", 1}, local_);
  Meet("a");
  Say("a", 8, 1000);
  EXPECT_EQ(View("a").places_free, 1);
  EXPECT_EQ(View("a").prompt_tokens_free, 300);
  EXPECT_EQ(table_.DemandOf(kDecode, "a", 0, 0).places_held, 7);
  for (int i = 0; i < 7; ++i) {
    table_.PromptDone(kDecode, {"a", 1}, local_);
    table_.Return(kDecode, {"a", 1}, local_);
  }
  EXPECT_EQ(View("a").places_free, 8);
  EXPECT_EQ(View("a").prompt_tokens_free, 1000);
  EXPECT_EQ(table_.DemandOf(kDecode, "a", 0, 0), WorkerDemand());
}

TEST_F(WorkerTableTest, WhatIsHeldIsOfTheProcessWhoeverElseHadItsAddress) {
  Meet("a", 1);
  Say("a", 2);
  table_.Take(kDecode, {"a", 1}, attempt_);
  table_.Remove(kDecode, "a");
  Meet("a", 2);
  Say("a", 2);
  EXPECT_EQ(View("a", 2).places_free, 2);
  table_.Take(kDecode, {"a", 2}, attempt_);
  // The first one is back, with and without a Remove between.
  Meet("a", 1);
  Say("a", 2);
  EXPECT_EQ(View("a", 1).places_free, 1);
  table_.Return(kDecode, {"a", 2}, attempt_);
  EXPECT_EQ(View("a", 1).places_free, 1);
  table_.Return(kDecode, {"a", 1}, attempt_);
  EXPECT_EQ(View("a", 1).places_free, 2);
  Meet("a", 2);
  Say("a", 2);
  EXPECT_EQ(View("a", 2).places_free, 2);
}

TEST_F(WorkerTableTest, GivingBackWhatNobodyTookIsABug) {
  Meet("a");
  Say("a", 2);
  table_.Take(kDecode, {"a", 1}, attempt_);
  table_.Return(kDecode, {"a", 1}, attempt_);
  EXPECT_DEATH(table_.Return(kDecode, {"a", 1}, attempt_), "gives back.*a");
  EXPECT_DEATH(table_.PromptDone(kDecode, {"b", 7}, prompt_), "gives back.*b");
}

TEST_F(WorkerTableTest, OnlyWhoIsAcceptedListedAndReadyGetsRequests) {
  Meet("a");
  EXPECT_EQ(open(), 0u);  // it has not said how it is
  Say("a", 1);
  EXPECT_EQ(open(), 1u);
  table_.SetListed(kDecode, "a", false);
  EXPECT_EQ(open(), 0u);
  table_.SetListed(kDecode, "a", true);
  table_.MarkSuspect({"a", 1});
  EXPECT_EQ(open(), 0u);
  Say("a", 1);
  EXPECT_EQ(open(), 1u);
  table_.Update(kDecode, "a", {.takes_new = false, .share = WorkerShare{5, 5}}, now_);
  EXPECT_EQ(open(), 0u);
  table_.Add(kDecode, "b", nullptr);
  table_.Learn(kDecode, "b", Facts(2), /*accepted=*/false);
  Say("b", 1);
  EXPECT_EQ(open(), 0u);
}

TEST_F(WorkerTableTest, TheLargestContextOutlivesItsProcessWhileItIsListed) {
  Meet("small");
  table_.Update(kDecode, "small", {.takes_new = true, .blocks_total = 10}, now_);
  Meet("large", 2);
  Say("large", 1);
  EXPECT_EQ(table_.HealthyContext(now_), 1000);
  table_.Lose(kDecode, "large");
  EXPECT_EQ(table_.HealthyContext(now_), 160);
  EXPECT_EQ(table_.KnownContext(), 1000);
  table_.SetListed(kDecode, "large", false);
  EXPECT_EQ(table_.KnownContext(), 160);
}

TEST_F(WorkerTableTest, WarmPairsAreThoseThatPrefillWorkersSaidLast) {
  Meet("d", 7);
  const auto warm = [&] { return table_.warm_pairs().With(View("d", 7)).size(); };
  const auto say = [&](const std::string& prefill, std::vector<uint64_t> pairs) {
    table_.Update(WorkerKind::kPrefill, prefill,
                  {.takes_new = true, .warm_pairs = std::move(pairs)}, now_);
  };
  for (const std::string prefill : {"p", "q"}) {
    table_.Add(WorkerKind::kPrefill, prefill, nullptr);
    table_.Learn(WorkerKind::kPrefill, prefill, Facts(1), /*accepted=*/true);
    say(prefill, {6, 7, 7});
  }
  EXPECT_EQ(warm(), 2u);
  say("p", {6});
  EXPECT_EQ(warm(), 1u);
  EXPECT_EQ(table_.warm_pairs().With(View("d", 7))[0]->address, "q");
  table_.Lose(WorkerKind::kPrefill, "q");
  EXPECT_EQ(warm(), 0u);
  say("p", {7});
  EXPECT_EQ(warm(), 1u);
  table_.Remove(WorkerKind::kPrefill, "p");
  EXPECT_EQ(warm(), 0u);
}

TEST_F(WorkerTableTest, WhoIsSilentGetsNothingNewUntilItSpeaks) {
  Meet("a");
  Say("a", 1);
  now_ += std::chrono::milliseconds(2000);
  EXPECT_TRUE(table_.AnyHealthy(kDecode, now_));
  now_ += std::chrono::milliseconds(1);
  EXPECT_FALSE(table_.AnyHealthy(kDecode, now_));
  EXPECT_EQ(open(), 0u);
  Say("a", 1);
  EXPECT_TRUE(table_.AnyHealthy(kDecode, now_));
  EXPECT_EQ(open(), 1u);
}

TEST_F(WorkerTableTest, SilenceMakesUnhealthyAndIsNotDeath) {
  Meet("a");
  Say("a", 1);
  now_ += std::chrono::milliseconds(2001);
  EXPECT_FALSE(table_.IsHealthy(kDecode, "a", now_));
  EXPECT_FALSE(table_.IsFresh({"a", 1}, now_));
  EXPECT_TRUE(table_.IsAlive({"a", 1}));
}

TEST_F(WorkerTableTest, SequencesAreThoseOfTheLastStatusAndThosePlacedSince) {
  Meet("a");
  const auto say = [&] {
    table_.Update(kDecode, "a", {.takes_new = true, .running = 3, .waiting = 2}, now_);
  };
  say();
  EXPECT_EQ(View("a").sequences, 5);
  table_.Take(kDecode, {"a", 1}, attempt_);
  table_.Take(kDecode, {"a", 1}, local_);
  EXPECT_EQ(View("a").sequences, 7);
  say();
  EXPECT_EQ(View("a").sequences, 5);
  table_.Take(kDecode, {"a", 1}, attempt_);
  table_.Lose(kDecode, "a");
  EXPECT_EQ(table_.Find(kDecode, {"a", 1}), nullptr);
  table_.Learn(kDecode, "a", Facts(1), /*accepted=*/true);
  EXPECT_EQ(View("a").sequences, 0);
}

TEST_F(WorkerTableTest, TheLineIsOfPromptsSinceTheWorkerHadNoneToCompute) {
  Meet("a");
  const auto say = [&](int64_t queued) {
    table_.Update(kDecode, "a", {.takes_new = true, .queued_prompt_tokens = queued}, now_);
  };
  say(0);
  table_.Take(kDecode, {"a", 1}, local_);
  table_.Take(kDecode, {"a", 1}, attempt_);  // its prompt is computed elsewhere
  EXPECT_EQ(View("a").line, 1);
  say(50);
  table_.Take(kDecode, {"a", 1}, local_);
  table_.PromptDone(kDecode, {"a", 1}, local_);
  EXPECT_EQ(View("a").line, 2);
  say(0);
  EXPECT_EQ(View("a").line, 0);
}

TEST_F(WorkerTableTest, HandoffTimesAreToldOfOnceSomeWereSeen) {
  for (int i = 0; i < 7; ++i) {
    table_.NoteHandoff(100 * i, std::chrono::milliseconds(2 + i));
    EXPECT_FALSE(table_.handoff_times().known);
  }
  table_.NoteHandoff(700, std::chrono::milliseconds(9));
  const HandoffTimes times = table_.handoff_times();
  EXPECT_TRUE(times.known);
  EXPECT_NEAR(times.fixed_s, 0.002, 1e-9);
  EXPECT_NEAR(times.token_s, 1e-5, 1e-12);
}

TEST_F(WorkerTableTest, DemandIsWhatIsHeldAndWhatWaits) {
  Meet("a");
  Say("a", 4);
  table_.Take(kDecode, {"a", 1}, local_);
  EXPECT_EQ(table_.DemandOf(kDecode, "a", 7, 900), (WorkerDemand{.places_held = 1,
                                                                 .places_wanted = 8,
                                                                 .prompt_tokens_held = 100,
                                                                 .prompt_tokens_wanted = 1000}));
}

TEST_F(WorkerTableTest, ListsFollowWhateverHappens) {
  std::mt19937 random(11);
  std::vector<int> held(20);
  std::vector<int> share(20);
  for (int i = 0; i < 20; ++i) Meet(std::to_string(i));
  for (int step = 0; step < 5000; ++step) {
    const int i = static_cast<int>(random() % 20);
    const std::string address = std::to_string(i);
    switch (random() % 3) {
      case 0:
        share[i] = static_cast<int>(random() % 4);
        Say(address, share[i]);
        break;
      case 1:
        table_.Take(kDecode, {address, 1}, attempt_);
        ++held[i];
        break;
      default:
        if (held[i] == 0) break;
        table_.Return(kDecode, {address, 1}, attempt_);
        --held[i];
    }
    std::set<std::string> expected, found;
    for (int j = 0; j < 20; ++j) {
      if (share[j] > held[j]) expected.insert(std::to_string(j));
    }
    for (const WorkerView* view : table_.WithPlace(kDecode)) found.insert(view->address);
    ASSERT_EQ(found, expected) << "step " << step;
    ASSERT_EQ(found.size(), open());
  }
}

TEST_F(WorkerTableTest, ShapesAreThoseOfAcceptedListedWorkersOfTheModel) {
  const auto meet = [&](const std::string& address, const std::string& dtype,
                        const std::string& model, bool accepted) {
    WorkerFacts facts = Facts(1);
    facts.layout.dtype = dtype;
    facts.fingerprint = model;
    table_.Add(kDecode, address, nullptr);
    table_.Learn(kDecode, address, facts, accepted);
  };
  meet("d:1", "int8", "m", true);
  meet("d:2", "int8", "m", true);
  meet("d:3", "bfloat16", "other", true);
  meet("d:4", "bfloat16", "m", /*accepted=*/false);
  meet("d:5", "float32", "m", true);
  table_.SetListed(kDecode, "d:5", false);
  const std::vector<KvShape> shapes = table_.ShapesOf(kDecode, "m");
  ASSERT_EQ(shapes.size(), 1u);
  EXPECT_EQ(shapes[0].dtype, "int8");
  EXPECT_TRUE(table_.ShapesOf(WorkerKind::kPrefill, "m").empty());
}

}  // namespace
}  // namespace baton
