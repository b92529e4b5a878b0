// Guides that are made to cost: each ends in an error or in masks, in a time that others can bear.
#include <time.h>

#include <chrono>
#include <sstream>

#include "tests/common/guide/guide_fixture.h"

namespace baton {
namespace {

using GuideHostileTest = GuideTest;

std::string Repeated(const std::string& part, int times) {
  std::string all;
  for (int i = 0; i < times; ++i) all += part;
  return all;
}

// Choices among `k` objects, `n` times over, which only together say what is allowed.
std::string Product(int n, int k) {
  std::ostringstream text;
  text << R"({"allOf":[)";
  for (int i = 0; i < n; ++i) {
    text << (i > 0 ? "," : "") << R"({"anyOf":[)";
    for (int j = 0; j < k; ++j) {
      text << (j > 0 ? "," : "") << R"({"properties":{"p)" << i << '_' << j
           << R"(":{"type":"integer"}}})";
    }
    text << "]}";
  }
  text << "]}";
  return text.str();
}

// Rules that double what they stand for: 2^n characters.
std::string Doubling(char letter, int n) {
  std::ostringstream text;
  text << "start: " << letter << "0\n";
  for (int i = 0; i < n; ++i) {
    text << letter << i << ": " << letter << i + 1 << ' ' << letter << i + 1 << '\n';
  }
  text << letter << n << ": \"a\"\n";
  return text.str();
}

// Generous, because sanitizers and busy machines are slow; what is caught here would take for ever.
constexpr auto kPatience = std::chrono::seconds(60);

// Texts follow it in so many ways that each of its items costs as much as all before it.
constexpr char kAmbiguous[] =
    "start: s\ns: s s s s s s s s | s s s s s s s | s s s s s s | s s s s s | s s s s | s s s | s s"
    " | /[a-z ]/ | \"\"\n";

class HostileGuides : public GuideTest, public ::testing::WithParamInterface<GuideSpec> {};

TEST_P(HostileGuides, EndInAnErrorOrInMasks) {
  const auto begin = std::chrono::steady_clock::now();
  const auto begun = Begin(GetParam().kind, GetParam().text);
  if (begun.ok()) {
    Wander(**begun, 1, 60);
    const absl::Status status = (*begun)->status();
    EXPECT_TRUE(status.ok() || ReasonOf(status) == Reason::kLimitExceeded) << status;
  } else {
    // FULL on a machine that is too busy to tell.
    const Reason reason = ReasonOf(begun.status());
    EXPECT_TRUE(reason == Reason::kInvalidGuide || reason == Reason::kFull) << begun.status();
    EXPECT_LT(begun.status().message().size(), 1000u);
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, kPatience);
}

INSTANTIATE_TEST_SUITE_P(
    All, HostileGuides,
    ::testing::Values(
        GuideSpec{GuideKind::kJsonSchema, Repeated("[", 20000)},
        GuideSpec{GuideKind::kJsonSchema, Repeated("{\"a\":", 5000) + "1" + Repeated("}", 5000)},
        GuideSpec{GuideKind::kJsonSchema, Repeated(R"({"type":"object","properties":{"a":)", 60) +
                                              "{}" + Repeated("}}", 60)},
        GuideSpec{GuideKind::kJsonSchema, Product(10, 10)},
        GuideSpec{GuideKind::kJsonSchema, Product(4, 4)},
        GuideSpec{GuideKind::kJsonSchema, R"({"$ref":"#"})"},
        GuideSpec{GuideKind::kJsonSchema, R"({"type":"string","minLength":1000000})"},
        GuideSpec{GuideKind::kJsonSchema, R"({"type":"array","minItems":1000000})"},
        GuideSpec{GuideKind::kJsonSchema, R"({"type":"string","pattern":"(.*a.{2000})+"})"},
        GuideSpec{GuideKind::kRegex, Repeated("(", 20000) + "a" + Repeated(")", 20000)},
        GuideSpec{GuideKind::kRegex, Repeated("(", 60) + "a" + Repeated(")*", 60)},
        GuideSpec{GuideKind::kRegex, "((((a{100}){100}){100}){100})"},
        GuideSpec{GuideKind::kRegex, "(.*a.{2000})"},
        GuideSpec{GuideKind::kRegex, "(a|a?)+(a|b)*c"},
        GuideSpec{GuideKind::kRegex, Repeated("a?", 5000) + Repeated("a", 5000)},
        GuideSpec{GuideKind::kGrammar, "start: " + Repeated("(\"a\"?)", 5000)},
        GuideSpec{GuideKind::kGrammar, "start: " + Repeated("(", 20000)},
        GuideSpec{GuideKind::kGrammar, "start: start start | \"a\" | start"},
        GuideSpec{GuideKind::kGrammar, "start: a\na: start"},
        GuideSpec{GuideKind::kGrammar, "start: \"a\"~1000000000"},
        GuideSpec{GuideKind::kGrammar, Doubling('x', 40)},
        GuideSpec{GuideKind::kGrammar, "start: X0\n" + Doubling('X', 40)},
        GuideSpec{GuideKind::kGrammar, std::string("start: \"\0\"", 10)},
        GuideSpec{GuideKind::kGrammar, "start: s\ns: s s s | s s | /[a-z ]/ | /[a-z]+/ | \"\"\n"},
        GuideSpec{GuideKind::kGrammar, kAmbiguous},
        GuideSpec{GuideKind::kChoice, Repeated("[", 5000)}));

// The processor's time, because that is what the bound is of: what the thread of an engine spends
// on taking tokens, and what the answer costs in all.
base::Duration TimeOfThisThread() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
}

TEST_F(GuideHostileTest, AnAnswerCostsNoMoreThanItsBudgetAndTakingItNothing) {
  const auto state = MustBegin(GuideKind::kGrammar, kAmbiguous);
  const base::Duration begin = TimeOfThisThread();
  base::Duration taking{};
  int tokens = 0;
  while (state->Mask(), state->status().ok()) {
    ASSERT_LT(++tokens, 300) << "it never became too complex";
    const base::Duration before = TimeOfThisThread();
    state->Take('a');
    taking += TimeOfThisThread() - before;
  }
  EXPECT_EQ(ReasonOf(state->status()), Reason::kLimitExceeded);
  EXPECT_LT(taking, GuideBudget::kFelt);
  // Work is ended a little late.
  const base::Duration most = GuideBudget::kAtOnce + (tokens + 10) * GuideBudget::kEachToken;
  EXPECT_LT(TimeOfThisThread() - begin, most) << tokens << " tokens";
}

TEST_F(GuideHostileTest, WorkEndsOnceItHasTakenWhatItMay) {
  const auto vocabulary =
      *GuideVocabulary::Make(tokenizer_, options_.width, std::vector{tokenizer_->eos()});
  const auto compiled = *vocabulary->Compile({.kind = GuideKind::kGrammar, .text = kAmbiguous});
  const auto state = *compiled->Start();
  const std::vector<uint32_t> text(500, 'a');
  GuideWatch watch;
  BatonBuffer error;
  BatonStatus status = BATON_OK;
  const base::Duration took = watch.Run(state.get(), std::chrono::milliseconds(50), [&] {
    status = baton_guide_take(state.get(), text.data(), text.size(), &error);
  });
  EXPECT_EQ(status, BATON_INVALID);
  EXPECT_EQ(rust::TakeString(error), "operation cancelled");
  EXPECT_GE(took, std::chrono::milliseconds(50));
}

TEST_F(GuideHostileTest, AReplayMayTakeWhatTheAnswerTook) {
  const auto begun = Begin(GuideKind::kGrammar, kAmbiguous, std::vector<TokenId>(20, 'a'));
  EXPECT_TRUE(begun.ok()) << begun.status();
}

TEST_F(GuideHostileTest, OthersGoOnBesideABrokenOne) {
  const auto good = MustBegin(GuideKind::kRegex, "[ab]{40}");
  const auto bad = Begin(GuideKind::kRegex, Repeated("a?", 5000) + Repeated("a", 5000));
  if (bad.ok()) {
    Wander(**bad, 1, 5);
    EXPECT_EQ(ReasonOf((*bad)->status()), Reason::kLimitExceeded);
  }
  EXPECT_EQ(Wander(*good, 2, 100).size(), 40u);
  EXPECT_TRUE(good->only_end());
}

}  // namespace
}  // namespace baton
