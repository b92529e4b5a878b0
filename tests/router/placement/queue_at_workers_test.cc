// A queue in front of workers of several sizes: who goes past whom.
#include <gmock/gmock.h>

#include <map>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "router/placement/choose_place.h"
#include "router/placement/request_queue.h"
#include "router/workers/worker_table.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using Try = RequestQueue::Try;

class QueueAtWorkersTest : public ::testing::Test {
 protected:
  static constexpr auto kDecode = WorkerKind::kDecode;
  static constexpr auto kPrefill = WorkerKind::kPrefill;
  static constexpr int64_t kLarge = 2000;
  static constexpr int64_t kSmall = 100;

  void Meet(WorkerKind kind, const std::string& address, int32_t context, int64_t places,
            const std::string& model = "m") {
    table_.Add(kind, address, nullptr);
    table_.Learn(kind, address,
                 {.incarnation = ++processes_,
                  .fingerprint = model,
                  .layout = {.block_size = 16},
                  .protocol_major = 1,
                  .protocol_minor = 100,
                  .max_model_len = context},
                 /*accepted=*/true);
    Say(kind, address, places);
  }
  void Say(WorkerKind kind, const std::string& address, int64_t places) {
    table_.Update(kind, address,
                  {.takes_new = true,
                   .blocks_total = address == "small" ? 100 : 1000,
                   .share = WorkerShare{.places = places, .prompt_tokens = 1'000'000}},
                  now_);
  }
  // The small pool is idle, and the large one is full.
  void MeetPools() {
    Meet(kDecode, "large", 2048, 0);
    Meet(kDecode, "small", 256, 8);
  }
  void Add(int count, int64_t peak, const std::string& tenant = "a", int64_t prompt = 20) {
    for (int i = 0; i < count; ++i) AddOne({.tokens = prompt, .peak_tokens = peak}, tenant);
  }
  void AddOne(RoutingNeed need, const std::string& tenant = "a") {
    ASSERT_TRUE(queue_
                    .Add({.id = ++added_,
                          .arrived = now_ + std::chrono::milliseconds(added_),
                          .need = std::move(need),
                          .tenant = tenant})
                    .ok());
  }
  void Remove() { queue_.Remove(added_--); }
  PlacementView view() const {
    return {.workers = table_,
            .failed_pairs = no_failed_pairs_,
            .hints = &hints_,
            .local_prefill_below = local_below_,
            .now = now_};
  }
  // Who gets a place, by the order in which they came.
  std::vector<uint64_t> Pass() {
    std::vector<uint64_t> placed;
    tried_ = 0;
    RequestQueue::Passage passage = PassageOf(view());
    passage.place = [&](const RequestQueue::Waiting& waiting, const RequestQueue::Ahead& ahead) {
      ++tried_;
      ChosenPlace place;
      const Try outcome = ChoosePlace(view(), waiting.need, ahead, &random_, &place);
      if (outcome == Try::kPlaced) {
        table_.Take(kDecode, place.route.decode->key(), place.decode);
        placed.push_back(waiting.id);
      }
      return outcome;
    };
    passage.hopeless = [&](const RequestQueue::Waiting&, base::Instant since) {
      return now_ - since >= std::chrono::seconds(30);
    };
    queue_.Pass(now_, passage);
    return placed;
  }

  RequestQueue queue_{100'000};
  base::Instant now_{std::chrono::hours(1)};
  WorkerTable table_{
      {.status_fresh = std::chrono::hours(1), .full_backoff = std::chrono::milliseconds(200)}};
  PrefixHints hints_;
  const PairSet no_failed_pairs_;
  std::optional<int64_t> local_below_ = 0;
  std::mt19937_64 random_{5};
  uint64_t processes_ = 0, added_ = 0;
  int tried_ = 0;
};

TEST_F(QueueAtWorkersTest, LargeOnesDoNotStopSmallOnesHoweverManyTheyAre) {
  MeetPools();
  Add(20, kLarge);
  Add(1, kSmall);
  EXPECT_THAT(Pass(), ElementsAre(21));
  EXPECT_EQ(tried_, 2) << "those that want what one ahead waits for are not tried";
  Add(10'000, kLarge);
  Add(1, kSmall);
  EXPECT_THAT(Pass(), ElementsAre(10'022));
  EXPECT_EQ(tried_, 2);
}

TEST_F(QueueAtWorkersTest, WhomEveryWorkerFoundTooLongHasNoneAndHoldsNobodyBack) {
  Meet(kDecode, "large", 2048, 1);
  const RoutingNeed need{
      .tokens = 20, .peak_tokens = kLarge, .unfit = {WorkerKey{"large", processes_}}};
  AddOne(need);
  Add(1, kLarge);
  EXPECT_THAT(Pass(), ElementsAre(2));
  now_ += std::chrono::seconds(30);
  EXPECT_THAT(Pass(), IsEmpty());
  EXPECT_TRUE(queue_.empty()) << "it was not given up";
  AddOne(need);
  EXPECT_THAT(Pass(), IsEmpty());
  Meet(kDecode, "other", 2048, 1);
  EXPECT_THAT(Pass(), ElementsAre(3)) << "a worker that has not been asked";
}

TEST_F(QueueAtWorkersTest, NorDoThoseOfManyTenants) {
  MeetPools();
  for (int tenant = 0; tenant < 100; ++tenant) Add(17, kLarge, absl::StrCat("t", tenant));
  Add(1, kSmall, "late");
  EXPECT_THAT(Pass(), ElementsAre(1701));
  EXPECT_EQ(tried_, 2);
}

TEST_F(QueueAtWorkersTest, NorDoLargeOnesOfManySizes) {
  MeetPools();
  for (int64_t size = kLarge; size > 300; --size) Add(1, size);
  for (int beams = 1; beams <= 100; ++beams) {
    // The longer the beams are, the fewer blocks they need in all; none fits the small pool.
    AddOne({.tokens = 20, .peak_tokens = 9000 - beams, .beam_tokens = 100 + beams});
  }
  Add(1, kSmall);
  EXPECT_THAT(Pass(), ElementsAre(1801));
}

TEST_F(QueueAtWorkersTest, WhoWantsTheSameWorkersIsServedByArrival) {
  MeetPools();
  Add(3, kLarge);
  Add(2, 1000);
  Add(1, 300);
  EXPECT_THAT(Pass(), IsEmpty());
  Say(kDecode, "large", 4);
  EXPECT_THAT(Pass(), ElementsAre(1, 2, 3, 4));
  Say(kDecode, "large", 5);
  EXPECT_THAT(Pass(), ElementsAre(5));
}

TEST_F(QueueAtWorkersTest, SmallOnesLeaveTheLargePoolToWhoNeedsIt) {
  MeetPools();
  Meet(kDecode, "busy", 2048, 8);
  table_.MarkFull({"busy", 3}, now_);
  Add(20, kLarge);
  Add(10, kSmall);
  EXPECT_EQ(Pass().size(), 8u) << "the places of the small pool";
  EXPECT_EQ(queue_.size(), 22);
}

TEST_F(QueueAtWorkersTest, AVersionThatHasNoPlaceHoldsBackOnlyItsOwn) {
  Meet(kDecode, "old", 2048, 0, "1");
  Meet(kDecode, "new", 2048, 100, "2");
  for (int i = 0; i < 40; ++i) AddOne({.tokens = 20, .peak_tokens = 100, .fingerprint = "1"});
  Add(2, kLarge);
  AddOne({.tokens = 20, .peak_tokens = 100, .fingerprint = "2"});
  EXPECT_THAT(Pass(), ElementsAre(41, 42, 43));
  EXPECT_EQ(tried_, 4);
}

TEST_F(QueueAtWorkersTest, WhoNobodyCouldTakeIsGivenUpWhoeverWaitsBefore) {
  Meet(kDecode, "large", 2048, 0);
  Meet(kDecode, "small", 256, 8);
  Add(20, 1000);
  Add(1, 5000);
  AddOne({.tokens = 20, .peak_tokens = 1500, .fingerprint = "gone"});
  Pass();
  now_ += std::chrono::seconds(20);
  Meet(kDecode, "huge", 5000, 0);
  Pass();
  now_ += std::chrono::seconds(10);
  Pass();
  EXPECT_EQ(queue_.size(), 21) << "only who was without a worker all the time is given up";
  table_.Lose(kDecode, "huge");
  Pass();
  now_ += std::chrono::seconds(29);
  Pass();
  EXPECT_EQ(queue_.size(), 21);
  now_ += std::chrono::seconds(1);
  Pass();
  EXPECT_EQ(queue_.size(), 20);
}

class QueueAtPrefillWorkersTest : public QueueAtWorkersTest {
 protected:
  // Decode workers have places, and the prefill worker has none.
  void SetUp() override {
    Meet(kDecode, "d", 4096, 1000);
    Meet(kPrefill, "p", 4096, 0);
    local_below_ = 64;
  }
  void AddPrompts(int count, int64_t tokens) { Add(count, 3000, "a", tokens); }
};

TEST_F(QueueAtPrefillWorkersTest, ShortPromptsPassLongOnesHoweverManyTheyAre) {
  AddPrompts(10'000, 2000);
  AddPrompts(1, 63);
  AddPrompts(1, 64);
  EXPECT_THAT(Pass(), ElementsAre(10'001));
  EXPECT_LE(tried_, 2);
  EXPECT_THAT(Pass(), IsEmpty());
  EXPECT_LE(tried_, 1);
}

TEST_F(QueueAtPrefillWorkersTest, SoDoPromptsThatDecodeWorkersHold) {
  PrefixChain held{.tokens = 2000, .blocks = {}};
  for (uint64_t block = 1; block <= 125; ++block) held.blocks.push_back(block);
  hints_.Note({"d", 1}, held, 1000, now_);
  AddPrompts(100, 2000);
  AddOne({.tokens = 2000, .peak_tokens = 3000, .prefix = std::make_shared<PrefixChain>(held)});
  held.blocks.resize(100);
  held.blocks.resize(125, 7'000'000);  // 1600 tokens of it are held
  AddOne({.tokens = 2000, .peak_tokens = 3000, .prefix = std::make_shared<PrefixChain>(held)});
  EXPECT_THAT(Pass(), ElementsAre(101));
  EXPECT_LE(tried_, 2);
}

TEST_F(QueueAtPrefillWorkersTest, FurtherAnswersGoWhereTheirPromptIs) {
  AddPrompts(10'000, 2000);
  AddOne({.tokens = 2000, .peak_tokens = 3000, .beside = WorkerKey{"d", 1}});
  EXPECT_THAT(Pass(), ElementsAre(10'001));
}

TEST_F(QueueAtPrefillWorkersTest, ButNotPromptsOfWhichWhatIsHeldIsScored) {
  PrefixChain held{.tokens = 2000, .blocks = {}};
  for (uint64_t block = 1; block <= 125; ++block) held.blocks.push_back(block);
  hints_.Note({"d", 1}, held, 1000, now_);
  AddPrompts(1, 2000);
  AddOne({.tokens = 2000,
          .peak_tokens = 3000,
          .prefix = std::make_shared<PrefixChain>(held),
          .cacheable_tokens = 1000});
  EXPECT_THAT(Pass(), IsEmpty());
  EXPECT_EQ(tried_, 1);
}

// By cost, every prompt may be computed by the decode worker that it would get.
TEST_F(QueueAtPrefillWorkersTest, ByCostOnlySoManyAreTriedAndThenThoseThatAreMuchShorter) {
  local_below_ = std::nullopt;
  AddPrompts(10'000, 2000);
  AddPrompts(10, 900);
  AddPrompts(10, 500);
  EXPECT_THAT(Pass(), IsEmpty()) << "nothing is known of times, so all are split";
  EXPECT_GT(tried_, 200);
  EXPECT_LE(tried_, 300);
}

TEST_F(QueueAtPrefillWorkersTest, WithoutLocalPromptsNobodyPassesWhoWaitsForAPrefillWorker) {
  local_below_ = 0;
  AddPrompts(10, 2000);
  AddPrompts(1, 1);
  EXPECT_THAT(Pass(), IsEmpty());
  EXPECT_EQ(tried_, 1);
}

// A new version is rolled out, and the old one's prefill worker has no place.
class QueueInARolloutTest : public QueueAtWorkersTest {
 protected:
  void SetUp() override {
    for (const std::string model : {"1", "2"}) {
      Meet(kDecode, "d" + model, 4096, 1000, model);
      Meet(kPrefill, "p" + model, 4096, model == "1" ? 0 : 1000, model);
    }
  }
  void AddReplays(int count, const std::string& model, int64_t prompt = 500) {
    for (int i = 0; i < count; ++i) {
      AddOne({.tokens = prompt, .peak_tokens = 600, .fingerprint = model});
    }
  }
  // Whatever says where prompts are computed.
  static constexpr std::optional<int64_t> kLocalBelow[] = {0, 64, std::nullopt};
};

TEST_F(QueueInARolloutTest, WhoWaitsForPrefillWorkersOfOneVersionStopsNobodyOfTheOther) {
  for (const auto& local_below : kLocalBelow) {
    local_below_ = local_below;
    AddReplays(3, "1");
    const uint64_t replays = added_;
    Add(2, 600, "a", 500);
    AddReplays(1, "2");
    EXPECT_THAT(Pass(), ElementsAre(replays + 1, replays + 2, replays + 3));
    if (!local_below) continue;
    EXPECT_EQ(tried_, 4) << "the other replays are foreseen to wait";
  }
}

TEST_F(QueueInARolloutTest, HoweverManyTheyAre) {
  for (const auto& local_below : kLocalBelow) {
    local_below_ = local_below;
    AddReplays(1000, "1");
    const uint64_t replays = added_;
    Add(2, 2000, "a", 1000);
    EXPECT_THAT(Pass(), ElementsAre(replays + 1, replays + 2));
    EXPECT_LE(tried_, 300);
  }
}

TEST_F(QueueInARolloutTest, PrefillWorkersOfBothVersionsAreKeptForThoseThatWait) {
  Say(kPrefill, "p2", 0);
  for (const auto& local_below : kLocalBelow) {
    local_below_ = local_below;
    const auto first = added_ + 1;
    AddReplays(1, "1");
    AddReplays(1, "2");
    Add(100, 600, "a", 500);
    Say(kPrefill, "p2", 0);
    EXPECT_THAT(Pass(), IsEmpty());
    if (local_below) {
      EXPECT_EQ(tried_, 2) << "with both full, nobody else is tried";
    }
    Say(kPrefill, "p2", 1);
    const std::vector<uint64_t> placed = Pass();
    ASSERT_FALSE(placed.empty());
    EXPECT_EQ(placed.front(), first + 1) << "the replay comes before the new ones";
    while (!queue_.empty()) Remove();
  }
}

}  // namespace
}  // namespace baton
