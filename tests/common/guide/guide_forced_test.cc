// What a guide forces: which tokens, and that nothing but the tokens so far decides it.
#include <gmock/gmock.h>

#include <map>

#include "tests/common/guide/guide_fixture.h"
#include "tests/fakes/longest_tokenizer.h"

namespace baton {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

std::vector<TokenId> ForcedBy(SequenceGuide& guide) {
  const auto ids = guide.Forced().ids;
  return {ids.begin(), ids.end()};
}

class GuideForcedTest : public GuideTest {
 protected:
  // Has a compiler over bytes and these pieces, whose tokenizer takes the longest that fits.
  void UsePieces(std::vector<std::string> pieces) {
    tokenizer_ = std::make_shared<ByteTokenizer>(std::move(pieces),
                                                 std::vector<std::string>{"</s>", "<|tool|>"});
    Use(std::make_shared<LongestTokenizer>(tokenizer_), tokenizer_->eos());
  }
  void Use(const std::shared_ptr<const Tokenizer>& tokenizer, TokenId eos) {
    options_.width = tokenizer->vocab_size() + kPadding;
    options_.eos_ids = {eos};
    compiler_ = std::make_unique<GuideCompiler>(tokenizer, options_);
  }
  TokenId Id(std::string_view piece) const { return tokenizer_->TokenToId(piece).value(); }
};

TEST_F(GuideForcedTest, AForcedTextIsWrittenAsTheTokenizerWritesIt) {
  UsePieces({"he", "hello", " world", " wor"});
  const auto state = MustBegin(GuideKind::kChoice, R"(["hello world"])");
  EXPECT_THAT(ForcedBy(*state), ElementsAre(Id("hello"), Id(" world")));
  EXPECT_TRUE(state->Forced().whole);
  EXPECT_FALSE(state->only_end());
  state->Take(Id("hello"));
  EXPECT_THAT(ForcedBy(*state), ElementsAre(Id(" world")));
  state->Take(Id(" world"));
  EXPECT_THAT(ForcedBy(*state), IsEmpty());
  EXPECT_THAT(AllowedBy(*state), ElementsAre(tokenizer_->eos()));
  EXPECT_TRUE(state->only_end());
}

TEST_F(GuideForcedTest, ATokenThatMayReachBeyondTheKnownTextIsLeftToTheModel) {
  UsePieces({"bc", "cdx"});
  const auto state = MustBegin(GuideKind::kRegex, "abcd(x|y)");
  EXPECT_THAT(ForcedBy(*state), ElementsAre('a')) << "bcd and then cdx might follow";
  EXPECT_THAT(ForcedBy(*state), ElementsAre('a'));
  state->Take('a');
  EXPECT_THAT(AllowedBy(*state), ElementsAre('b', Id("bc")));
  state->Take('b');
  EXPECT_THAT(AllowedBy(*state), ElementsAre('c', Id("cdx")));
  state->Take(Id("cdx"));
  EXPECT_THAT(AllowedBy(*state), ElementsAre(tokenizer_->eos()));
}

TEST_F(GuideForcedTest, WhereTheAnswerMayEndNothingIsForced) {
  const auto state = MustBegin(GuideKind::kChoice, R"(["ab","abc"])");
  EXPECT_THAT(ForcedBy(*state), ElementsAre('a', 'b'));
  state->Take('a');
  state->Take('b');
  EXPECT_THAT(ForcedBy(*state), IsEmpty());
  state->Take('c');
  EXPECT_THAT(ForcedBy(*state), IsEmpty());
  EXPECT_THAT(AllowedBy(*state), ElementsAre(tokenizer_->eos()));
}

TEST_F(GuideForcedTest, ASpecialTokenIsDrawnFromAMaskOfItsOwn) {
  const auto state = MustBegin(GuideKind::kGrammar, "start: \"a\" <|tool|> \"b\" /[xy]/");
  EXPECT_THAT(ForcedBy(*state), ElementsAre('a'));
  state->Take('a');
  EXPECT_THAT(ForcedBy(*state), IsEmpty());
  EXPECT_THAT(AllowedBy(*state), ElementsAre(Id("<|tool|>")));
  EXPECT_FALSE(state->only_end());
  state->Take(Id("<|tool|>"));
  EXPECT_THAT(ForcedBy(*state), ElementsAre('b'));
  state->Take('b');
  EXPECT_THAT(AllowedBy(*state), ElementsAre('x', 'y'));
  const auto resumed =
      MustBegin(GuideKind::kGrammar, "start: \"a\" <|tool|> \"b\" /[xy]/", {'a', Id("<|tool|>")});
  EXPECT_THAT(ForcedBy(*resumed), ElementsAre('b'));
}

TEST_F(GuideForcedTest, GrammarsThatCountTokensOrLeaveATextOutForceNothing) {
  for (const char* text : {"text[stop=\".\"]: /[a-z]{2}/", "text[max_tokens=3]: /[a-z.]+/"}) {
    SCOPED_TRACE(text);
    const auto state = MustBegin(GuideKind::kGrammar,
                                 std::string("start: \"say: \" text \" and no more\"\n") + text);
    for (const char c : std::string("say: to. and no more")) {
      EXPECT_THAT(ForcedBy(*state), IsEmpty());
      ASSERT_TRUE(Allows(*state, c)) << c;
      state->Take(c);
      ASSERT_TRUE(state->status().ok()) << state->status();
    }
    EXPECT_THAT(AllowedBy(*state), ElementsAre(tokenizer_->eos()));
  }
}

TEST_F(GuideForcedTest, ALongRunIsToldInPartsWhichDoNotDependOnWhereItIsCut) {
  std::string text;
  for (int i = 0; i < 300; ++i) text += static_cast<char>('a' + i * i % 26);
  const std::string guide = "[\"" + text + "\"]";
  const auto state = MustBegin(GuideKind::kChoice, guide);
  std::string told;
  int parts = 0;
  while (true) {
    const bool whole = state->Forced().whole;
    for (const TokenId id : ForcedBy(*state)) {
      told += static_cast<char>(id);
      state->Take(id);
      if (told.size() % 50 != 0 || told.size() == text.size()) continue;
      const std::vector<TokenId> cut(told.begin(), told.end());
      EXPECT_THAT(ForcedBy(*MustBegin(GuideKind::kChoice, guide, cut))[0], text[told.size()]);
    }
    ++parts;
    if (whole) break;
  }
  EXPECT_EQ(told, text);
  EXPECT_GT(parts, 2);
  EXPECT_THAT(AllowedBy(*state), ElementsAre(tokenizer_->eos()));
}

TEST_F(GuideForcedTest, AnotherTokenThanTheForcedOneBreaksIt) {
  const auto state = MustBegin(GuideKind::kChoice, R"(["abc"])");
  ASSERT_EQ(ForcedBy(*state).size(), 3u);
  state->Take('a');
  EXPECT_TRUE(state->status().ok());
  state->Take('x');
  state->Take('c');
  EXPECT_EQ(ReasonOf(state->status()), Reason::kLimitExceeded) << state->status();
}

TEST_F(GuideForcedTest, CharactersOfSeveralBytesAreForcedWhole) {
  UsePieces({"größer", "öß"});
  EXPECT_THAT(ForcedBy(*MustBegin(GuideKind::kChoice, R"(["größer"])")), ElementsAre(Id("größer")));
  // Cut within a character.
  const auto cut = MustBegin(GuideKind::kChoice, R"(["größer"])", {'g', 'r', 0xC3});
  EXPECT_THAT(ForcedBy(*cut), IsEmpty()) << "no text begins there";
  EXPECT_THAT(AllowedBy(*cut), ElementsAre(0xB6));
}

// Guides of all kinds, in which texts are forced between choices of every sort.
const GuideSpec kGuides[] = {
    {GuideKind::kJsonSchema,
     R"({"type":"object","properties":{"first_name":{"type":"string","maxLength":6},)"
     R"("the_age":{"type":"integer","minimum":0,"maximum":150},"true_or_not":{"type":"boolean"}},)"
     R"("required":["first_name","the_age","true_or_not"],"additionalProperties":false})"},
    {GuideKind::kJsonSchema,
     R"({"type":"object","properties":{"name":{"const":"get_the_weather"},"arguments":{"type":)"
     R"("object","properties":{"place":{"type":"string","maxLength":5},"unit":{"enum":)"
     R"(["celsius","centigrade","fahrenheit"]}},"required":["unit"],)"
     R"("additionalProperties":false}},"required":["name","arguments"],)"
     R"("additionalProperties":false,"x-guidance":{"whitespace_flexible":false}})"},
    {GuideKind::kJsonSchema,
     R"({"type":"array","items":{"anyOf":[{"const":"once upon a time"},{"const":"once more"},)"
     R"({"type":"null"},{"type":"array","items":{"enum":[12,123,"12"]},"maxItems":2}]},)"
     R"("minItems":2,"maxItems":4})"},
    {GuideKind::kJsonObject, ""},
    {GuideKind::kRegex, "The (the|then|there)( and the (little|large) fox){1,3}[.]"},
    {GuideKind::kRegex, "(größer|größe|grün) als [0-9]{2}°"},
    {GuideKind::kRegex, "(ab){3,5}(abc|abd)+x?"},
    {GuideKind::kChoice, R"(["strongly agree","strongly disagree","no opinion","no"])"},
    {GuideKind::kGrammar,
     "start: \"begin \" item+ \" end\"\nitem: \"[\" (item | /[a-c]{1,2}/) \"]\""},
    {GuideKind::kGrammar,
     "start: \"call(\" %json {\"type\":\"object\",\"properties\":{\"x\":{\"const\":true}},"
     "\"required\":[\"x\"],\"additionalProperties\":false} \") the end\""},
    // Ends that depend on the number of tokens, and on a text that is left out.
    {GuideKind::kGrammar, "start: \"it is \" few \"; the end\"\nfew[max_tokens=3]: /[a-z ]+/"},
    {GuideKind::kGrammar,
     "start: \"say: \" text \" and no more\"\ntext[stop=\".\"]: /[a-z ]{0,20}/"},
};

struct Place {
  bool forced = false;
  std::vector<TokenId> allowed;
};

class GuideRunsTest : public GuideForcedTest, public testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    const std::string param = GetParam();
    if (param == "bytes") return;
    if (param == "pieces") {
      return UsePieces({"the",   " the", "The",   "{\"",  "\":",  "\",", "\", \"", "name",
                        "_name", "once", " more", "upon", "true", "12",  "123",    "strong",
                        "ly",    "no",   "ab",    "aba",  "abab", "bab", "end",    " end",
                        "[a",    "]]",   "call",  "größ", "ün"});
    }
    auto demo = LoadTokenizerFile(std::string(BATON_SOURCE_DIR) + "/models/demo/tokenizer.json");
    ASSERT_TRUE(demo.ok()) << demo.status();
    std::shared_ptr<const Tokenizer> loaded = *std::move(demo);
    TokenId eos = 0;
    while (!loaded->IsSpecial(eos)) ++eos;
    eos_ = eos;
    Use(loaded, eos);
  }
  TokenId eos() const { return eos_.value_or(tokenizer_->eos()); }

  // What may come at each place of an answer that is drawn at random, and the answer.
  std::vector<TokenId> Walk(const GuideSpec& guide, uint32_t seed, std::vector<Place>* places) {
    std::mt19937 random(seed);
    const auto state = MustBegin(guide.kind, guide.text);
    std::vector<TokenId> tokens;
    while (tokens.size() < 40) {
      const std::vector<TokenId> forced = ForcedBy(*state);
      for (const TokenId id : forced) {
        places->push_back({.forced = true, .allowed = {id}});
        tokens.push_back(id);
        state->Take(id);
      }
      if (!state->Forced().whole || !ForcedBy(*state).empty()) continue;
      const std::vector<TokenId> allowed = AllowedBy(*state);
      EXPECT_TRUE(state->status().ok()) << state->status();
      places->push_back({.forced = false, .allowed = allowed});
      const TokenId id = allowed[random() % allowed.size()];
      tokens.push_back(id);
      if (id == eos()) break;
      state->Take(id);
    }
    return tokens;
  }

  std::optional<TokenId> eos_;
};

TEST_P(GuideRunsTest, AReplayThatBeginsAnywhereFindsTheSame) {
  int forced = 0, places_seen = 0;
  for (const GuideSpec& guide : kGuides) {
    for (uint32_t seed = 1; seed <= 4; ++seed) {
      SCOPED_TRACE(testing::Message() << guide.text << " seed " << seed);
      std::vector<Place> places;
      const std::vector<TokenId> tokens = Walk(guide, seed, &places);
      ASSERT_EQ(tokens.size(), places.size());
      for (size_t cut = 0; cut < tokens.size(); ++cut) {
        SCOPED_TRACE(cut);
        const auto state = MustBegin(
            guide.kind, guide.text, {tokens.begin(), tokens.begin() + static_cast<ptrdiff_t>(cut)});
        const std::vector<TokenId> run = ForcedBy(*state);
        for (size_t i = 0; i < run.size() && cut + i < places.size(); ++i) {
          ASSERT_TRUE(places[cut + i].forced) << i;
          ASSERT_EQ(run[i], tokens[cut + i]) << i;
        }
        ASSERT_EQ(!run.empty(), places[cut].forced);
        if (run.empty()) {
          ASSERT_EQ(AllowedBy(*state), places[cut].allowed);
        }
        forced += places[cut].forced ? 1 : 0;
        ++places_seen;
      }
    }
  }
  EXPECT_GT(forced, 100) << "of " << places_seen;
}

INSTANTIATE_TEST_SUITE_P(Tokenizers, GuideRunsTest, testing::Values("bytes", "pieces", "demo"),
                         [](const auto& test) { return std::string(test.param); });

}  // namespace
}  // namespace baton
