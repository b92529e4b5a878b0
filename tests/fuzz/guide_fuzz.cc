// Guides: what is refused has a short message, and what is taken gives masks that never run dry, of
// which each allowed token can be taken.
#include <memory>
#include <string>
#include <vector>

#include "common/base/status.h"
#include "common/guide/guide_state.h"
#include "common/guide/guide_vocabulary.h"
#include "tests/fakes/byte_tokenizer.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/wire.h"

namespace baton::fuzz {
namespace {

constexpr int kMostTokens = 24;
constexpr size_t kMostMessage = 1000;

std::shared_ptr<const ByteTokenizer> SharedTokens() {
  static const auto& tokenizer = *new std::shared_ptr<const ByteTokenizer>(
      new ByteTokenizer({"{\"", "\":", " the", "true", "12"}, {"</s>", "<|tool|>"}));
  return tokenizer;
}
const ByteTokenizer& TokensOfGuides() { return *SharedTokens(); }

std::shared_ptr<const GuideVocabulary> VocabularyOfGuides() {
  static const auto& vocabulary = *new std::shared_ptr<const GuideVocabulary>([] {
    const std::vector<TokenId> eos = {TokensOfGuides().eos()};
    return *GuideVocabulary::Make(SharedTokens(), TokensOfGuides().vocab_size(), eos);
  }());
  return vocabulary;
}

// The n-th of the ids that are allowed, n counted round.
TokenId AllowedOf(std::span<const uint32_t> words, size_t n) {
  std::vector<TokenId> ids;
  for (size_t bit = 0; bit < words.size() * 32; ++bit) {
    if ((words[bit / 32] >> (bit % 32) & 1) != 0) ids.push_back(static_cast<TokenId>(bit));
  }
  BATON_CHECK(!ids.empty()) << "no id is allowed";
  BATON_CHECK(ids.back() < TokensOfGuides().vocab_size()) << ids.back();
  return ids[n % ids.size()];
}

// Goes on by the bytes of `path`, each of which chooses among what is allowed.
void Walk(const std::shared_ptr<const CompiledGuide>& guide, GuideKind kind,
          std::string_view path) {
  static TaskPool& pool = *new TaskPool(0, 0);
  static GuideWatch& watch = *new GuideWatch();
  auto begun = guide->Start();
  BATON_CHECK(begun.ok()) << begun.status().ToString();
  const auto state =
      std::make_shared<GuideState>(kind, *std::move(begun), VocabularyOfGuides(), &pool, &watch);
  for (const char step : path.substr(0, kMostTokens)) {
    const ForcedRun forced = state->Forced();
    const TokenId id = forced.ids.empty()
                           ? AllowedOf(state->Mask(), static_cast<unsigned char>(step))
                           : forced.ids.front();
    if (!Accepted(state->status()) || id == TokensOfGuides().eos()) return;
    BATON_CHECK(!state->only_end()) << id;
    state->Take(id);
    if (!state->status().ok()) {
      BATON_CHECK(ReasonOf(state->status()) == Reason::kLimitExceeded)
          << state->status().ToString();
    }
  }
}

}  // namespace

// A digit for the kind, the guide, and behind the divider the path through it.
FUZZ_TARGET(guide) {
  constexpr GuideKind kKinds[] = {GuideKind::kJsonSchema, GuideKind::kRegex, GuideKind::kChoice,
                                  GuideKind::kGrammar, GuideKind::kJsonObject};
  const GuideKind kind = kKinds[TakeChoice(&input, 5)];
  const std::string text(TakeSection(&input));
  if (!ValidateGuide({.kind = kind, .text = text}, {}).ok()) return;
  const auto compiled = VocabularyOfGuides()->Compile({.kind = kind, .text = text});
  if (!Accepted(compiled.status())) {
    const Reason reason = ReasonOf(compiled.status());
    BATON_CHECK(reason == Reason::kInvalidGuide || reason == Reason::kFull)
        << compiled.status().ToString();
    BATON_CHECK(compiled.status().message().size() < 4 * kMostMessage);
    return;
  }
  Walk(*compiled, kind, input);
}

}  // namespace baton::fuzz
