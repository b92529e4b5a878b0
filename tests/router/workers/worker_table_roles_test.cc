#include <gtest/gtest.h>

#include <set>
#include <string>

#include "router/workers/worker_table.h"

namespace baton {
namespace {

class WorkerTableRolesTest : public ::testing::Test {
 protected:
  static constexpr auto kDecode = WorkerKind::kDecode;
  static WorkerFacts Facts(uint64_t incarnation) {
    return {.incarnation = incarnation,
            .fingerprint = "m",
            .layout = {.block_size = 16},
            .max_model_len = 1000};
  }

  WorkerTable table_{
      {.status_fresh = std::chrono::seconds(2), .full_backoff = std::chrono::milliseconds(200)}};
  base::Instant now_{std::chrono::hours(1)};
};

TEST_F(WorkerTableRolesTest, TellsElasticWorkersOfAllThatServeTheirModel) {
  constexpr auto kPrefill = WorkerKind::kPrefill;
  const auto meet = [&](const std::string& address, uint64_t incarnation, bool elastic,
                        WorkerKind takes, const std::string& model = "m") {
    WorkerFacts facts = Facts(incarnation);
    facts.fingerprint = model;
    facts.kinds = elastic ? std::set{kPrefill, kDecode} : std::set{takes};
    for (const WorkerKind kind : facts.kinds) {
      table_.Add(kind, address, nullptr);
      table_.Learn(kind, address, facts, /*accepted=*/true);
      table_.Update(kind, address,
                    {.takes_new = kind == takes,
                     .other_role = kind != takes,
                     .queued_prompt_tokens = 100,
                     .blocks_total = 100,
                     .share = WorkerShare{.places = 1, .prompt_tokens = 1},
                     .prompt_times = {.token_s = takes == kPrefill ? 0.002 : 0},
                     .fill = 0.5,
                     .prompt_load = 0.25},
                    now_);
    }
  };
  meet("a", 30, true, kDecode);
  meet("b", 10, true, kDecode);
  meet("c", 40, true, kPrefill);
  meet("d", 5, false, kPrefill);
  meet("other", 1, true, kDecode, "another model");
  const ClusterView cluster = table_.ClusterOf("m", now_);
  const RoleView decode{
      .workers = 2, .lowest = 10, .highest = 30, .queued_prompt_tokens = 200, .fill = 1};
  const RoleView prefill{.workers = 2,
                         .fixed = true,
                         .lowest = 40,
                         .highest = 40,
                         .queued_prompt_tokens = 200,
                         .fill = 1};
  EXPECT_EQ(cluster.decode, decode);
  EXPECT_EQ(cluster.prefill, prefill);
  EXPECT_DOUBLE_EQ(cluster.prompt_token_s, 0.002);
  EXPECT_DOUBLE_EQ(cluster.prompt_load, 4 * 0.25);
  EXPECT_TRUE(table_.TakesOtherRole(kPrefill, "a", now_));
  EXPECT_FALSE(table_.TakesOtherRole(kDecode, "a", now_));
  EXPECT_FALSE(table_.IsHealthy(kPrefill, "a", now_));
  // Who is silent, or gone, is not counted.
  table_.Lose(kDecode, "b");
  EXPECT_EQ(table_.ClusterOf("m", now_).decode.workers, 1);
  EXPECT_EQ(table_.ClusterOf("m", now_ + std::chrono::seconds(3)).decode.workers, 0);
}

TEST_F(WorkerTableRolesTest, AnElasticWorkerThatIsNotInBothListsStays) {
  constexpr auto kPrefill = WorkerKind::kPrefill;
  const auto meet = [&](WorkerKind kind, const std::string& address, uint64_t incarnation,
                        bool accepted = true) {
    WorkerFacts facts = Facts(incarnation);
    facts.kinds = {kPrefill, kDecode};
    table_.Add(kind, address, nullptr);
    table_.Learn(kind, address, facts, accepted);
    table_.Update(kind, address, {.takes_new = kind == kDecode, .blocks_total = 100}, now_);
  };
  meet(kDecode, "once", 50);
  meet(kDecode, "both", 30);
  EXPECT_FALSE(table_.MayChangeRole("both"));
  meet(kPrefill, "both", 30);
  const auto row = [&] { return table_.ClusterOf("m", now_).decode; };
  EXPECT_TRUE(table_.MayChangeRole("both"));
  EXPECT_FALSE(table_.MayChangeRole("once"));
  EXPECT_EQ(row(), (RoleView{.workers = 2, .fixed = true, .lowest = 30, .highest = 30}));
  // It is one process, whatever it is called.
  meet(kDecode, "alias", 30);
  EXPECT_EQ(row(), (RoleView{.workers = 2, .fixed = true, .lowest = 30, .highest = 30}));
  // A list that dropped it, and a router that refuses it, tell it nothing either.
  table_.SetListed(kPrefill, "both", false);
  EXPECT_FALSE(table_.MayChangeRole("both"));
  EXPECT_EQ(row(), (RoleView{.workers = 2, .fixed = true}));
  table_.SetListed(kPrefill, "both", true);
  EXPECT_TRUE(table_.MayChangeRole("both"));
  meet(kPrefill, "both", 30, /*accepted=*/false);
  EXPECT_FALSE(table_.MayChangeRole("both"));
  table_.Lose(kPrefill, "both");
  EXPECT_TRUE(table_.MayChangeRole("both")) << "it may be back in a moment";
  meet(kDecode, "both", 30, /*accepted=*/false);
  EXPECT_FALSE(table_.MayChangeRole("both"));
}

}  // namespace
}  // namespace baton
