// What each kind of guide allows, what is refused, and what is kept.
#include <atomic>
#include <chrono>
#include <functional>
#include <future>
#include <utility>

#include "tests/common/guide/guide_fixture.h"
#include "tests/fakes/no_room_for_stacks.h"

namespace baton {
namespace {

constexpr char kPoint[] =
    R"({"type":"object","properties":{"y":{"type":"integer"},"x":{"enum":["a","b"]}},)"
    R"("required":["y","x"],"additionalProperties":false})";

using GuideCompilerTest = GuideTest;

TEST_F(GuideCompilerTest, ASchemaAllowsWhatValidatesInTheOrderOfItsProperties) {
  EXPECT_TRUE(Accepts(GuideKind::kJsonSchema, kPoint, R"({"y":12,"x":"a"})"));
  EXPECT_TRUE(Accepts(GuideKind::kJsonSchema, kPoint, "{\n  \"y\": -1,\n  \"x\": \"b\"\n}"));
  EXPECT_FALSE(Accepts(GuideKind::kJsonSchema, kPoint, R"({"x":"a","y":12})"));
  EXPECT_FALSE(Accepts(GuideKind::kJsonSchema, kPoint, R"({"y":1.5,"x":"a"})"));
  EXPECT_FALSE(Accepts(GuideKind::kJsonSchema, kPoint, R"({"y":1})"));
  EXPECT_FALSE(Accepts(GuideKind::kJsonSchema, kPoint, R"({"y":1,"x":"a"} )"));
}

TEST_F(GuideCompilerTest, BlanksOfJsonAreFew) {
  EXPECT_TRUE(Accepts(GuideKind::kJsonSchema, kPoint, R"({"y": 12, "x": "a"})"));
  EXPECT_FALSE(Accepts(GuideKind::kJsonSchema, kPoint, R"({"y":  12, "x": "a"})"));
  EXPECT_FALSE(Accepts(GuideKind::kJsonSchema, kPoint, "{\n\n\"y\":12,\"x\":\"a\"}"));
  // A schema may say otherwise.
  EXPECT_TRUE(Accepts(GuideKind::kJsonSchema,
                      R"({"type":"integer","x-guidance":{"whitespace_flexible":false}})", "7"));
}

TEST_F(GuideCompilerTest, ObjectsRegexesChoicesAndGrammars) {
  EXPECT_TRUE(Accepts(GuideKind::kJsonObject, "", R"({"a":[1,{"b":null}]})"));
  EXPECT_FALSE(Accepts(GuideKind::kJsonObject, "", "[1]"));
  EXPECT_TRUE(Accepts(GuideKind::kRegex, "[0-9]{4}-[0-9]{2}", "2024-05"));
  EXPECT_FALSE(Accepts(GuideKind::kRegex, "[0-9]{4}-[0-9]{2}", "2024-5"));
  EXPECT_TRUE(Accepts(GuideKind::kRegex, "a/b\"c", "a/b\"c"));
  const std::string choices = R"(["yes","no","a \"b\"\n","größer"])";
  EXPECT_TRUE(Accepts(GuideKind::kChoice, choices, "no"));
  EXPECT_TRUE(Accepts(GuideKind::kChoice, choices, "a \"b\"\n"));
  EXPECT_TRUE(Accepts(GuideKind::kChoice, choices, "größer"));
  EXPECT_FALSE(Accepts(GuideKind::kChoice, choices, "nope"));
  const std::string nested = "start: \"(\" start? \")\"";
  EXPECT_TRUE(Accepts(GuideKind::kGrammar, nested, "((()))"));
  EXPECT_FALSE(Accepts(GuideKind::kGrammar, nested, "((())"));
}

TEST_F(GuideCompilerTest, SpecialTokensAndPaddingAreNoText) {
  const auto state = MustBegin(GuideKind::kRegex, "(?s:.*)");
  const std::vector<TokenId> allowed = AllowedBy(*state);
  ASSERT_FALSE(allowed.empty());
  EXPECT_EQ(allowed.back(), tokenizer_->eos());
  EXPECT_FALSE(Allows(*state, tokenizer_->TokenToId("<|tool|>").value()));
  EXPECT_TRUE(Allows(*state, tokenizer_->TokenToId(" the").value()));
  // No UTF-8 has this byte.
  EXPECT_FALSE(Allows(*state, 0xff));
}

TEST_F(GuideCompilerTest, AnAnswerGoesOnBehindTokensOfEarlierAttempts) {
  const auto fresh = MustBegin(GuideKind::kChoice, R"(["yes","yesterday"])");
  for (const TokenId id : {'y', 'e', 's'}) fresh->Take(id);
  const auto resumed = MustBegin(GuideKind::kChoice, R"(["yes","yesterday"])", {'y', 'e', 's'});
  EXPECT_EQ(AllowedBy(*resumed), AllowedBy(*fresh));
  EXPECT_EQ(AllowedBy(*resumed), (std::vector<TokenId>{'t', tokenizer_->eos()}));
  const auto other = Begin(GuideKind::kChoice, R"(["yes"])", {'n'});
  EXPECT_EQ(other.status().code(), absl::StatusCode::kInvalidArgument) << other.status();
}

TEST_F(GuideCompilerTest, WhatCannotBeFollowedIsRefusedWithFieldAndReason) {
  const std::pair<GuideSpec, std::string> cases[] = {
      {{GuideKind::kJsonSchema, "{"}, "not JSON"},
      {{GuideKind::kJsonSchema, "[1]"}, "an object, or true"},
      {{GuideKind::kJsonSchema, R"({"type":"nope"})"}, "nope"},
      {{GuideKind::kJsonSchema, R"({"$ref":"http://localhost/x"})"}, "$ref"},
      {{GuideKind::kJsonSchema, R"({"allOf":[{"type":"string"},{"type":"null"}]})"}, ""},
      {{GuideKind::kRegex, "(a"}, "unclosed group"},
      {{GuideKind::kRegex, "a(?=b)"}, "look-around"},
      {{GuideKind::kChoice, "[]"}, "a JSON list of strings"},
      {{GuideKind::kChoice, R"(["a",""])"}, "not empty"},
      {{GuideKind::kGrammar, "begin: \"a\""}, "start"},
      {{GuideKind::kGrammar, "start: nothing"}, "nothing"},
  };
  for (const auto& [guide, says] : cases) {
    const absl::Status status = compiler_->Check(guide);
    EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument) << guide.text;
    EXPECT_EQ(ReasonOf(status), Reason::kInvalidGuide) << status;
    EXPECT_EQ(DetailOf(status).field, GuideFieldName(guide.kind));
    EXPECT_NE(status.message().find(says), std::string::npos) << status;
  }
}

TEST_F(GuideCompilerTest, AModelWithoutTokenizerOrEosHasNoGuides) {
  GuideCompiler without_tokenizer(nullptr, options_);
  EXPECT_EQ(ReasonOf(without_tokenizer.Check({GuideKind::kJsonObject, ""})),
            Reason::kUnsupportedField);
  GuideCompilerOptions options = options_;
  options.eos_ids.clear();
  GuideCompiler without_eos(tokenizer_, options);
  EXPECT_EQ(ReasonOf(without_eos.Check({GuideKind::kJsonObject, ""})), Reason::kUnsupportedField);
}

TEST_F(GuideCompilerTest, WhatWasCompiledIsKeptUpToABound) {
  GuideCompilerOptions options = options_;
  options.most_cached = 2;
  GuideCompiler compiler(tokenizer_, options);
  const GuideSpec a{GuideKind::kRegex, "a"}, b{GuideKind::kRegex, "b"}, c{GuideKind::kRegex, "("};
  for (const GuideSpec& guide : {a, b, a, a}) EXPECT_TRUE(compiler.Check(guide).ok());
  EXPECT_EQ(compiler.compiled(), 2);
  EXPECT_FALSE(compiler.Check(c).ok());  // takes the place of b, which was used before a
  EXPECT_FALSE(compiler.Check(c).ok());
  EXPECT_TRUE(compiler.Check(a).ok());
  EXPECT_EQ(compiler.compiled(), 3);
  EXPECT_TRUE(compiler.Check(b).ok());
  EXPECT_EQ(compiler.compiled(), 4);
  // The same text is another guide as another kind.
  EXPECT_TRUE(compiler.Check({GuideKind::kGrammar, "start: \"b\""}).ok());
  EXPECT_FALSE(compiler.Check({GuideKind::kRegex, "start: \"(\" ("}).ok());
}

TEST_F(GuideCompilerTest, WhatCouldNotBeCompiledNowIsNeitherInvalidNorKept) {
  const GuideSpec guide{GuideKind::kRegex, "a+"};
  EXPECT_TRUE(compiler_->Check({GuideKind::kRegex, "b"}).ok()) << "there is a vocabulary";
  {
    const NoRoomForStacks none;
    const absl::Status status = compiler_->Check(guide);
    EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
    EXPECT_EQ(ReasonOf(status), Reason::kFull) << status;
    EXPECT_EQ(DetailOf(status).field, "guided_regex");
    EXPECT_TRUE(DetailOf(status).retry_after.has_value());
  }
  EXPECT_TRUE(compiler_->Check(guide).ok());
}

TEST_F(GuideCompilerTest, AStoppedCompilerBeginsNothing) {
  compiler_->Stop();
  std::atomic<bool> called = false;
  EXPECT_FALSE(compiler_->Begin(
      {.guide = {GuideKind::kRegex, "a"}, .generated = {}, .wanted = Always, .begun = [&](auto) {
         called = true;
       }}));
  EXPECT_FALSE(called);
}

// Holds up the line that asks it.
class Barrier {
 public:
  ~Barrier() { Open(); }
  void Open() {
    if (!std::exchange(open_, true)) opens_.set_value();
  }
  std::function<bool()> wanted() {
    return [opened = opened_] {
      opened.wait();
      return true;
    };
  }

 private:
  bool open_ = false;
  std::promise<void> opens_;
  std::shared_future<void> opened_ = opens_.get_future().share();
};

// Whether it has begun while others are held up.
bool HasBegun(const std::future<absl::StatusOr<std::shared_ptr<SequenceGuide>>>& begun) {
  return begun.wait_for(std::chrono::seconds(20)) == std::future_status::ready;
}

TEST_F(GuideCompilerTest, AGuideThatIsKeptDoesNotWaitForThoseThatAreNot) {
  MustBegin(GuideKind::kRegex, "a+");
  Barrier barrier;
  const auto held_up = BeginLater(GuideKind::kRegex, "b+", {}, barrier.wanted());
  EXPECT_TRUE(HasBegun(BeginLater(GuideKind::kRegex, "a+")));
  EXPECT_TRUE(HasBegun(BeginLater(GuideKind::kRegex, "a+", {'a', 'a'})));
  barrier.Open();
  EXPECT_TRUE(HasBegun(held_up));
}

TEST_F(GuideCompilerTest, AFreshAnswerDoesNotWaitForTokensOfOthers) {
  MustBegin(GuideKind::kRegex, "a+");
  Barrier barrier;
  const auto held_up = BeginLater(GuideKind::kRegex, "a+", {'a', 'a'}, barrier.wanted());
  EXPECT_TRUE(HasBegun(BeginLater(GuideKind::kRegex, "a+")));
  EXPECT_TRUE(HasBegun(BeginLater(GuideKind::kRegex, "b+")));
  barrier.Open();
  EXPECT_TRUE(HasBegun(held_up));
}

TEST_F(GuideCompilerTest, WhatNobodyWantsAnyMoreIsNotCompiled) {
  const auto nobody = [] { return false; };
  EXPECT_TRUE(absl::IsCancelled(BeginLater(GuideKind::kRegex, "a", {}, nobody).get().status()));
  EXPECT_EQ(compiler_->compiled(), 0);
  MustBegin(GuideKind::kRegex, "a");
  EXPECT_TRUE(absl::IsCancelled(BeginLater(GuideKind::kRegex, "a", {'a'}, nobody).get().status()));
}

}  // namespace
}  // namespace baton
