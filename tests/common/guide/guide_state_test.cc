// The state of one answer: masks, its end, what breaks it.
#include "tests/common/guide/guide_fixture.h"

namespace baton {
namespace {

using GuideStateTest = GuideTest;

TEST_F(GuideStateTest, KnowsWhenNothingButTheEndIsAllowed) {
  const auto state = MustBegin(GuideKind::kChoice, R"(["ab","abc"])");
  for (const TokenId id : {'a', 'b'}) {
    EXPECT_TRUE(Allows(*state, id));
    EXPECT_FALSE(state->only_end());
    state->Take(id);
  }
  EXPECT_EQ(AllowedBy(*state), (std::vector<TokenId>{'c', tokenizer_->eos()}));
  EXPECT_FALSE(state->only_end());
  state->Take('c');
  EXPECT_FALSE(state->only_end());  // its mask is not known yet
  EXPECT_EQ(AllowedBy(*state), (std::vector<TokenId>{tokenizer_->eos()}));
  EXPECT_TRUE(state->only_end());
}

TEST_F(GuideStateTest, APreparedMaskIsTheSame) {
  const auto prepared = MustBegin(GuideKind::kJsonObject, "");
  const auto asked = MustBegin(GuideKind::kJsonObject, "");
  for (const TokenId id : {'{', '"', 'k'}) {
    prepared->Prepare();
    prepared->Prepare();
    EXPECT_EQ(AllowedBy(*prepared), AllowedBy(*asked));
    prepared->Take(id);
    asked->Take(id);
  }
}

TEST_F(GuideStateTest, StatesOfOneGuideShareNothing) {
  const auto a = MustBegin(GuideKind::kRegex, "[a-c]{3}x");
  const auto b = MustBegin(GuideKind::kRegex, "[a-c]{3}x");
  for (int i = 0; i < 3; ++i) a->Take('a');
  EXPECT_EQ(AllowedBy(*a), std::vector<TokenId>{'x'});
  EXPECT_EQ(AllowedBy(*b), (std::vector<TokenId>{'a', 'b', 'c'}));
}

TEST_F(GuideStateTest, AForeignTokenBreaksItAndLeavesTheEnd) {
  const auto state = MustBegin(GuideKind::kRegex, "aa");
  state->Take('b');
  EXPECT_TRUE(state->Forced().ids.empty());
  EXPECT_EQ(state->status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(ReasonOf(state->status()), Reason::kLimitExceeded);
  EXPECT_EQ(DetailOf(state->status()).field, "guided_regex");
  EXPECT_EQ(AllowedBy(*state), (std::vector<TokenId>{tokenizer_->eos()}));
  EXPECT_FALSE(state->only_end());
}

TEST_F(GuideStateTest, ATokenIsOnlyNotedWhereItIsTaken) {
  const auto state = MustBegin(GuideKind::kRegex, "a[xy]");
  state->Take('b');
  EXPECT_TRUE(state->status().ok()) << "the grammar was asked: " << state->status();
  AllowedBy(*state);
  EXPECT_EQ(ReasonOf(state->status()), Reason::kLimitExceeded);
}

TEST_F(GuideStateTest, TokensAreTheSameOneByOneAndTogether) {
  const auto together = MustBegin(GuideKind::kRegex, "[a-c]{3}x");
  const auto one_by_one = MustBegin(GuideKind::kRegex, "[a-c]{3}x");
  for (const TokenId id : {'a', 'b', 'c'}) {
    EXPECT_EQ(AllowedBy(*one_by_one), (std::vector<TokenId>{'a', 'b', 'c'}));
    one_by_one->Take(id);
    together->Take(id);
  }
  EXPECT_EQ(AllowedBy(*together), std::vector<TokenId>{'x'});
  EXPECT_EQ(AllowedBy(*one_by_one), std::vector<TokenId>{'x'});
}

TEST_F(GuideStateTest, RandomAnswersAreWholeOrUnfinishedNeverWrong) {
  constexpr char kSchema[] =
      R"({"type":"object","properties":{"n":{"type":"integer","minimum":1,"maximum":50},)"
      R"("s":{"type":"string","maxLength":5},"l":{"type":"array","items":{"type":"boolean"},)"
      R"("maxItems":3}},"required":["n","s","l"],"additionalProperties":false})";
  for (uint32_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    const auto state = MustBegin(GuideKind::kJsonSchema, kSchema);
    const std::string text = Wander(*state, seed, 400);
    ASSERT_TRUE(state->status().ok()) << state->status();
    EXPECT_TRUE(state->only_end()) << text;
    EXPECT_TRUE(Accepts(GuideKind::kJsonSchema, kSchema, text)) << text;
  }
}

}  // namespace
}  // namespace baton
