// What guides cost at a vocabulary of 128 000 tokens: compiling them, masks per token of an answer,
// and going on by a token; the floor beside them is what a sampler without a guide does: nothing.
// And what they save: how many tokens of an answer they force, and the steps that it takes with and
// without jump-forward.
//
//   bench_guide [VOCABULARY | TOKENIZER_JSON]
//
// The tokens of a VOCABULARY are made up, and encoded by the longest that fits.
#include <algorithm>
#include <bit>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/guide/guide_state.h"
#include "common/guide/guide_vocabulary.h"
#include "kernels/sample_processors.h"
#include "tests/fakes/byte_tokenizer.h"
#include "tests/fakes/longest_tokenizer.h"

namespace baton {
namespace {

using BenchClock = std::chrono::steady_clock;

double MicrosecondsSince(BenchClock::time_point begin) {
  return std::chrono::duration<double, std::micro>(BenchClock::now() - begin).count();
}

// Words as those of a real vocabulary are: most of a few letters, many with a space in front, some
// of punctuation, and those that JSON is made of.
std::vector<std::string> MadeUpWords(int count) {
  std::mt19937 random(7);
  const std::string marks = "{}[]\":,.-0123456789";
  std::set<std::string> words = {
      "{\"",      "\":",      "\",",         " \"",         "\"}",      "name",     "_name",
      "first",    "last",     "age",         "email",       "address",  "_address", "argument",
      "location", "unit",     "line",        "item",        "items",    "price",    "_price",
      "quantity", "quant",    "description", "sentiment",   "positive", "negative", "confidence",
      "get",      "_current", "_weather",    "temperature", "celsius"};
  while (static_cast<int>(words.size()) < count) {
    std::string word = random() % 2 == 0 ? " " : "";
    const bool mark = random() % 12 == 0;
    for (size_t length = 2 + random() % (mark ? 4 : 9); length > 0; --length) {
      word += mark ? marks[random() % marks.size()] : static_cast<char>('a' + random() % 26);
    }
    words.insert(std::move(word));
  }
  return {words.begin(), words.end()};
}

struct Timed {
  std::vector<double> masks, takes;  // µs
  double share = 0;                  // of ids that were allowed, on average
};

double At(std::vector<double> values, double quantile) {
  if (values.empty()) return 0;
  std::ranges::sort(values);
  return values[static_cast<size_t>(quantile * static_cast<double>(values.size() - 1))];
}

// Answers drawn at random among what is allowed.
Timed Answer(const CompiledGuide& guide, const GuideVocabulary& vocabulary, TokenId eos, int most) {
  Timed timed;
  std::mt19937 random(3);
  double allowed = 0;
  std::vector<uint32_t> words(vocabulary.words());
  while (static_cast<int>(timed.masks.size()) < most) {
    const CompiledGuide::State state = *guide.Start();
    for (int step = 0; step < 100; ++step) {
      uint8_t only_end = 0;
      BatonBuffer error;
      auto begin = BenchClock::now();
      BATON_CHECK(baton_guide_mask(state.get(), words.data(), words.size(), &only_end, &error) ==
                  BATON_OK);
      timed.masks.push_back(MicrosecondsSince(begin));
      std::vector<uint32_t> ids;
      for (size_t bit = 0; bit < words.size() * 32; ++bit) {
        if ((words[bit / 32] >> (bit % 32) & 1) != 0) ids.push_back(static_cast<uint32_t>(bit));
      }
      allowed += static_cast<double>(ids.size());
      const uint32_t id = ids[random() % ids.size()];
      if (static_cast<TokenId>(id) == eos) break;
      begin = BenchClock::now();
      BATON_CHECK(baton_guide_take(state.get(), &id, 1, &error) == BATON_OK);
      timed.takes.push_back(MicrosecondsSince(begin));
    }
  }
  timed.share = allowed / static_cast<double>(timed.masks.size() * words.size() * 32);
  return timed;
}

// What a mask costs the sampler of a host beside the row without one.
void PrintSampler(size_t width) {
  const std::vector<float> logits(width, 1.0f);
  std::vector<uint32_t> words((width + 31) / 32);
  std::mt19937 random(5);
  for (uint32_t& word : words) word = random();
  kernels::SampleProcessors processors;
  constexpr int kRounds = 200;
  for (const bool guided : {false, true}) {
    kernels::SampleRow row;
    if (guided) row.allowed = words;
    const auto begin = BenchClock::now();
    for (int i = 0; i < kRounds; ++i) {
      BATON_CHECK(processors.Process(row, logits).size() == width);
    }
    std::printf("logits of one row, %-16s %8.1f us\n",
                guided ? "with a mask:" : "without a guide:", MicrosecondsSince(begin) / kRounds);
  }
}

struct TypicalAnswer {
  const char* name;
  GuideSpec guide;
  std::string text;
};

std::vector<TypicalAnswer> TypicalAnswers() {
  const std::string person =
      R"({"type":"object","properties":{"first_name":{"type":"string"},"last_name":)"
      R"({"type":"string"},"age":{"type":"integer"},"email_address":{"type":"string"}},)"
      R"("required":["first_name","last_name","age","email_address"],)"
      R"("additionalProperties":false)";
  const std::string person_text = R"({"first_name": "Ada", "last_name": "Lovelace", "age": 36, )"
                                  R"("email_address": "ada@example.org"})";
  std::string dense = person_text;
  std::erase(dense, ' ');
  return {
      {"record", {GuideKind::kJsonSchema, person + "}"}, person_text},
      {"record, no blanks",
       {GuideKind::kJsonSchema, person + R"(,"x-guidance":{"whitespace_flexible":false}})"},
       dense},
      {"function call",
       {GuideKind::kJsonSchema,
        R"({"type":"object","properties":{"name":{"const":"get_current_weather"},"arguments":)"
        R"({"type":"object","properties":{"location":{"type":"string"},"temperature_unit":)"
        R"({"enum":["celsius","fahrenheit"]}},"required":["location","temperature_unit"],)"
        R"("additionalProperties":false}},"required":["name","arguments"],)"
        R"("additionalProperties":false})"},
       R"({"name": "get_current_weather", "arguments": {"location": "Paris, France", )"
       R"("temperature_unit": "celsius"}})"},
      {"classification",
       {GuideKind::kJsonSchema,
        R"({"type":"object","properties":{"sentiment":{"enum":["positive","negative","neutral"]},)"
        R"("confidence":{"type":"number"}},"required":["sentiment","confidence"],)"
        R"("additionalProperties":false})"},
       R"({"sentiment": "negative", "confidence": 0.93})"},
      {"list of items",
       {GuideKind::kJsonSchema,
        R"({"type":"object","properties":{"line_items":{"type":"array","items":{"type":"object",)"
        R"("properties":{"description":{"type":"string"},"quantity":{"type":"integer"},)"
        R"("unit_price":{"type":"number"}},"required":["description","quantity","unit_price"],)"
        R"("additionalProperties":false}}},"required":["line_items"],)"
        R"("additionalProperties":false})"},
       R"({"line_items": [{"description": "a pot of green tea", "quantity": 2, )"
       R"("unit_price": 4.5}, {"description": "two slices of toast", "quantity": 1, )"
       R"("unit_price": 3.2}]})"},
      {"choice",
       {GuideKind::kChoice, R"(["strongly agree","no opinion","disagree in part"])"},
       "disagree in part"},
      {"regular expression",
       {GuideKind::kRegex, "INVOICE-[0-9]{6} \\(of the year [0-9]{4}\\)"},
       "INVOICE-204173 (of the year 2024)"},
  };
}

struct AnswerCounts {
  int tokens = 0;  // EOS included
  int forced = 0;
  int only = 0;   // of these, where the grammar allows one id however the text is written
  int steps = 0;  // with jump-forward
};

// How many ids the grammar allows.
int AllowedIn(const CompiledGuide::State& state, const GuideVocabulary& vocabulary) {
  std::vector<uint32_t> words(vocabulary.words());
  uint8_t only_end = 0;
  BatonBuffer error;
  BATON_CHECK(baton_guide_mask(state.get(), words.data(), words.size(), &only_end, &error) ==
              BATON_OK);
  int allowed = 0;
  for (const uint32_t word : words) allowed += std::popcount(word);
  return allowed;
}

// Lets an answer of this text be drawn, each free token as long as the guide allows. `grammar` goes
// along.
AnswerCounts Follow(SequenceGuide& guide, const CompiledGuide::State& grammar,
                    const GuideVocabulary& vocabulary, const Tokenizer& tokenizer,
                    std::string_view text) {
  AnswerCounts counts;
  const auto go_on = [&](TokenId id) {
    BatonBuffer error;
    const auto number = static_cast<uint32_t>(id);
    BATON_CHECK(baton_guide_take(grammar.get(), &number, 1, &error) == BATON_OK);
    guide.Take(id);
  };
  while (true) {
    const ForcedRun run = guide.Forced();
    for (const TokenId id : std::vector<TokenId>(run.ids.begin(), run.ids.end())) {
      BATON_CHECK(text.starts_with(tokenizer.TokenBytes(id))) << std::string(text);
      text.remove_prefix(tokenizer.TokenBytes(id).size());
      ++counts.tokens;
      ++counts.forced;
      counts.only += AllowedIn(grammar, vocabulary) == 1 ? 1 : 0;
      go_on(id);
    }
    // A worker draws the first token of an answer before it feeds anything behind it.
    if (counts.steps == 0 && !run.ids.empty()) ++counts.steps;
    if (!run.whole) continue;
    ++counts.steps;
    ++counts.tokens;
    if (text.empty()) return counts;
    const std::span<const uint32_t> mask = guide.Mask();
    TokenId best = -1;
    for (TokenId id = 0; id < tokenizer.vocab_size(); ++id) {
      const std::string_view bytes = tokenizer.TokenBytes(id);
      const bool allowed = (mask[static_cast<size_t>(id) / 32] >> (id % 32) & 1) != 0;
      if (!allowed || bytes.empty() || !text.starts_with(bytes)) continue;
      if (best < 0 || bytes.size() > tokenizer.TokenBytes(best).size()) best = id;
    }
    BATON_CHECK(best >= 0) << "the guide does not allow " << std::string(text);
    text.remove_prefix(tokenizer.TokenBytes(best).size());
    go_on(best);
  }
}

// What guides force in answers as people ask for them.
void PrintForced(const std::shared_ptr<const GuideVocabulary>& vocabulary,
                 const Tokenizer& tokenizer) {
  TaskPool nobody(0, 0);
  GuideWatch watch;
  std::printf("\n%-20s %8s %8s %16s %18s %13s\n", "answer", "tokens", "forced", "by masks alone",
              "steps one by one", "jump-forward");
  AnswerCounts all;
  for (const TypicalAnswer& answer : TypicalAnswers()) {
    const auto compiled = *vocabulary->Compile(answer.guide);
    const auto state = std::make_shared<GuideState>(answer.guide.kind, *compiled->Start(),
                                                    vocabulary, &nobody, &watch);
    const AnswerCounts counts =
        Follow(*state, *compiled->Start(), *vocabulary, tokenizer, answer.text);
    std::printf("%-20s %8d %8d %16d %18d %13d\n", answer.name, counts.tokens, counts.forced,
                counts.only, counts.tokens, counts.steps);
    all.tokens += counts.tokens;
    all.only += counts.only;
    all.forced += counts.forced;
    all.steps += counts.steps;
  }
  std::printf("%-20s %8d %8d %16d %18d %13d\n", "all", all.tokens, all.forced, all.only, all.tokens,
              all.steps);
}

// What it costs to find out what is forced.
void PrintForcing(const std::shared_ptr<const GuideVocabulary>& vocabulary) {
  TaskPool nobody(0, 0);
  GuideWatch watch;
  const TypicalAnswer answer = TypicalAnswers()[2];
  const auto compiled = *vocabulary->Compile(answer.guide);
  std::vector<double> forced, free;
  for (int i = 0; i < 50; ++i) {
    const auto state = std::make_shared<GuideState>(answer.guide.kind, *compiled->Start(),
                                                    vocabulary, &nobody, &watch);
    for (int step = 0; step < 40; ++step) {
      const auto begin = BenchClock::now();
      const ForcedRun run = state->Forced();
      const double took = MicrosecondsSince(begin);
      const auto count = static_cast<double>(run.ids.size());
      run.ids.empty() ? free.push_back(took) : forced.push_back(took / count);
      for (const TokenId id : std::vector<TokenId>(run.ids.begin(), run.ids.end())) state->Take(id);
      const auto mask = state->Mask();
      size_t word = 0;
      while (mask[word] == 0) ++word;
      if (state->only_end()) break;
      state->Take(
          static_cast<TokenId>(word * 32 + static_cast<size_t>(std::countr_zero(mask[word]))));
    }
  }
  std::printf("\nfinding what is forced: %.1f us for each token of it, %.1f us where nothing is\n",
              At(forced, 0.5), At(free, 0.5));
}

std::shared_ptr<const Tokenizer> TokensOf(const std::string& what) {
  if (what.ends_with(".json")) {
    auto tokenizer = LoadTokenizerFile(what);
    BATON_CHECK(tokenizer.ok()) << tokenizer.status().ToString();
    return std::move(*tokenizer);
  }
  const int size = std::atoi(what.c_str());
  return std::make_shared<LongestTokenizer>(
      std::make_shared<ByteTokenizer>(MadeUpWords(size - 257), std::vector<std::string>{"</s>"}));
}

void Run(const std::string& what) {
  const std::shared_ptr<const Tokenizer> shared = TokensOf(what);
  const Tokenizer& tokenizer = *shared;
  std::vector<TokenId> eos;
  for (TokenId id = 0; id < tokenizer.vocab_size() && eos.empty(); ++id) {
    if (tokenizer.IsSpecial(id)) eos.push_back(id);
  }
  BATON_CHECK(!eos.empty()) << "no special token";
  auto begin = BenchClock::now();
  const std::shared_ptr<const GuideVocabulary> vocabulary =
      *GuideVocabulary::Make(shared, tokenizer.vocab_size(), eos);
  std::printf("vocabulary of %d tokens: made in %.0f ms, once\n\n", tokenizer.vocab_size(),
              MicrosecondsSince(begin) / 1e3);
  const std::pair<const char*, GuideSpec> guides[] = {
      {"JSON schema",
       {GuideKind::kJsonSchema,
        R"({"type":"object","properties":{"name":{"type":"string"},"age":{"type":"integer"},)"
        R"("tags":{"type":"array","items":{"enum":["a","b","c"]}},"note":{"type":"string"}},)"
        R"("required":["name","age","tags"],"additionalProperties":false})"}},
      {"JSON object", {GuideKind::kJsonObject, ""}},
      {"regular expression", {GuideKind::kRegex, "[A-Z][a-z]+( [a-z]+)*[.]"}},
      {"choice", {GuideKind::kChoice, R"(["positive","negative","neutral"])"}},
      {"grammar", {GuideKind::kGrammar, "start: \"(\" (start | /[a-z ]+/)* \")\""}}};
  std::printf("%-20s %11s %10s %10s %10s %10s %9s\n", "guide", "compile ms", "mask mean", "p50 us",
              "p99 us", "take us", "allowed");
  for (const auto& [name, guide] : guides) {
    begin = BenchClock::now();
    const auto compiled = *vocabulary->Compile(guide);
    const double compile_ms = MicrosecondsSince(begin) / 1e3;
    const Timed timed = Answer(*compiled, *vocabulary, eos[0], 2000);
    double total = 0;
    for (const double mask : timed.masks) total += mask;
    std::printf("%-20s %11.1f %10.1f %10.1f %10.1f %10.1f %8.2f%%\n", name, compile_ms,
                total / static_cast<double>(timed.masks.size()), At(timed.masks, 0.5),
                At(timed.masks, 0.99), At(timed.takes, 0.5), 100 * timed.share);
  }
  std::printf("\n");
  PrintSampler(static_cast<size_t>(tokenizer.vocab_size()));
  PrintForced(vocabulary, tokenizer);
  PrintForcing(vocabulary);
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  baton::Run(argc > 1 ? argv[1] : "128000");
  return 0;
}
