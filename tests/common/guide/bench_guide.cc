// What guides cost at a vocabulary of 128 000 tokens: compiling them, masks per token of an answer,
// and going on by a token. The floor beside them is what a sampler without a guide does: nothing.
//
//   bench_guide [VOCABULARY]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "common/guide/guide_state.h"
#include "common/guide/guide_vocabulary.h"
#include "kernels/sample_processors.h"
#include "tests/fakes/byte_tokenizer.h"

namespace baton {
namespace {

using BenchClock = std::chrono::steady_clock;

double MicrosecondsSince(BenchClock::time_point begin) {
  return std::chrono::duration<double, std::micro>(BenchClock::now() - begin).count();
}

// Words as those of a real vocabulary are: most of a few letters, many with a space in front, some
// of punctuation.
std::vector<std::string> MadeUpWords(int count) {
  std::mt19937 random(7);
  const std::string marks = "{}[]\":,.-0123456789";
  std::set<std::string> words;
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

void Run(int vocabulary_size) {
  const ByteTokenizer tokenizer(MadeUpWords(vocabulary_size - 257), {"</s>"});
  const std::vector<TokenId> eos = {tokenizer.eos()};
  auto begin = BenchClock::now();
  const auto vocabulary = *GuideVocabulary::Make(tokenizer, tokenizer.vocab_size(), eos);
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
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  baton::Run(argc > 1 ? std::atoi(argv[1]) : 128000);
  return 0;
}
