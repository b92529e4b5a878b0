#include "tools/eos/collect/collect_grid.h"

#include <set>

#include "gtest/gtest.h"

namespace baton {
namespace {

CollectPrompts TwoPrompts() {
  CollectPrompts prompts;
  prompts.prompts.resize(2);
  prompts.prompts[0].family = "story";
  prompts.prompts[1].family = "list";
  prompts.prompts[1].max_tokens = 7;
  return prompts;
}

std::vector<std::string> Ids(const std::vector<CollectRequest>& requests) {
  std::vector<std::string> ids;
  for (const CollectRequest& request : requests) ids.push_back(request.id);
  return ids;
}

TEST(CollectGrid, HasEachPromptWithEachTemperatureAndSeed) {
  const CollectGrid grid = {.first_seed = 3, .seeds = 2, .temperatures = {0, 0.8F}, .top_p = 0.7F};
  const auto requests = RequestsOf(TwoPrompts(), grid);
  EXPECT_EQ(Ids(requests), (std::vector<std::string>{
                               "story-000000-t0-p0.7-s3", "story-000000-t0-p0.7-s4",
                               "story-000000-t0.8-p0.7-s3", "story-000000-t0.8-p0.7-s4",
                               "list-000001-t0-p0.7-m7-s3", "list-000001-t0-p0.7-m7-s4",
                               "list-000001-t0.8-p0.7-m7-s3", "list-000001-t0.8-p0.7-m7-s4"}));
}

TEST(CollectGrid, APromptsOwnLimitGoesBeforeThatOfAll) {
  const auto requests = RequestsOf(TwoPrompts(), {.max_tokens = 100});
  EXPECT_EQ(Ids(requests),
            (std::vector<std::string>{"story-000000-t1-p1-m100-s1", "list-000001-t1-p1-m7-s1"}));
  EXPECT_EQ(requests[0].max_tokens, 100);
  EXPECT_EQ(requests[1].max_tokens, 7);
}

TEST(CollectGrid, PromptsShareNoRandomNumbers) {
  std::set<uint64_t> seeds;
  for (const auto& request : RequestsOf(TwoPrompts(), {.seeds = 3})) seeds.insert(request.seed);
  EXPECT_EQ(seeds, (std::set<uint64_t>{1000000, 1000001, 2000000, 2000001, 3000000, 3000001}));
}

TEST(CollectGrid, SendsEverythingThatDecidesTheAnswer) {
  const CollectPrompts prompts = TwoPrompts();
  const CollectGrid grid = {.temperatures = {0.5F}, .top_p = 0.9F, .hidden = true};
  const auto requests = RequestsOf(prompts, grid);
  const v1::GenerationSpec spec = ToSend(prompts.prompts[1], requests[1], grid).spec;
  EXPECT_EQ(spec.request_id(), "list-000001-t0.5-p0.9-m7-s1");
  EXPECT_EQ(spec.sampling().seed(), 1000001);
  EXPECT_EQ(spec.sampling().temperature(), 0.5F);
  EXPECT_EQ(spec.sampling().top_p(), 0.9F);
  EXPECT_EQ(spec.stop().max_tokens(), 7);
  EXPECT_TRUE(spec.eos().steps());
  EXPECT_TRUE(spec.eos().probe());
  const v1::GenerationSpec other = ToSend(prompts.prompts[0], requests[0], {}).spec;
  EXPECT_FALSE(other.stop().has_max_tokens());
  EXPECT_FALSE(other.eos().probe());
}

TEST(CollectGrid, TheManifestHasNumbersAsTheyWereGiven) {
  EXPECT_EQ(GridJson({.seeds = 3, .temperatures = {0, 0.8F}, .top_p = 0.7F}).dump(),
            R"({"first_seed":1,"seeds":3,"temperatures":[0.0,0.8],"top_p":0.7,)"
            R"("max_tokens":null,"hidden":false})");
}

}  // namespace
}  // namespace baton
