#include "common/formats/module_targets.h"

#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;
using Match = ModuleTargets::Match;

ModuleTargets TargetsOf(const json& targets) {
  auto read = ModuleTargets::Read(targets, "config.json group_0");
  EXPECT_TRUE(read.ok()) << read.status();
  return read.ok() ? *std::move(read) : ModuleTargets();
}

std::string TargetsRefusal(const json& targets) {
  const auto read = ModuleTargets::Read(targets, "config.json group_0");
  EXPECT_EQ(read.status().code(), absl::StatusCode::kInvalidArgument) << targets;
  return std::string(read.status().message());
}

TEST(ModuleTargetsTest, SayHowCloselyTheyMeanAModule) {
  const ModuleTargets targets = TargetsOf({"Linear", "lm_head", "re:.*self_attn\\.(q|k)_proj"});
  EXPECT_EQ(targets.Matches("lm_head"), Match::kName);
  EXPECT_EQ(targets.Matches("model.layers.0.self_attn.k_proj"), Match::kPattern);
  EXPECT_EQ(targets.Matches("model.layers.0.self_attn.o_proj"), Match::kClass);
  EXPECT_GT(targets.instructions(), 10);
  EXPECT_EQ(TargetsOf({"model.lm_head", "Embedding"}).Matches("lm_head"), Match::kNone);
  EXPECT_EQ(TargetsOf(json::array()).Matches("lm_head"), Match::kNone);
}

// As in Python, whose `re.match` compressed-tensors asks.
TEST(ModuleTargetsTest, ExpressionsMatchWhereANameBegins) {
  EXPECT_EQ(TargetsOf({"re:lm_"}).Matches("lm_head"), Match::kPattern);
  EXPECT_EQ(TargetsOf({"re:head"}).Matches("lm_head"), Match::kNone);
  EXPECT_EQ(TargetsOf({"re:lm_$"}).Matches("lm_head"), Match::kNone);
}

TEST(ModuleTargetsTest, RefuseWhatTheyCannotRead) {
  for (const json& wrong : {json(), json("Linear"), json::array({1}), json::object()}) {
    EXPECT_THAT(TargetsRefusal(wrong), AllOf(HasSubstr("group_0"), HasSubstr("list of names")));
  }
  EXPECT_THAT(TargetsRefusal({"re:(?!lm_head).*"}),
              AllOf(HasSubstr("(?!lm_head)"), HasSubstr("RE2"), HasSubstr("names of the modules")));
  EXPECT_THAT(TargetsRefusal({"re:((a{100}){100}){100}"}), HasSubstr("RE2"));
  EXPECT_THAT(TargetsRefusal({"re:(?:(?:[a-z]{0,99}){0,99})Z"}), HasSubstr("small when"));
  EXPECT_THAT(TargetsRefusal({"re:layers.\\d{,2}"}), HasSubstr("Python"));
  EXPECT_THAT(TargetsRefusal({"re:" + std::string(257, 'a')}), HasSubstr("of 257 bytes"));
  json many = json::array();
  for (int i = 0; i < 65; ++i) many.push_back("re:model.layers." + std::to_string(i));
  EXPECT_THAT(TargetsRefusal(many), HasSubstr("more than 64"));
}

}  // namespace
}  // namespace baton
