#include "tools/bench/plan/prompt_maker.h"

#include <algorithm>
#include <cctype>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/bench/plan/prompt_words.h"

namespace baton::bench {
namespace {

class IdPrompts final : public PromptMaker {
 public:
  IdPrompts(std::vector<int32_t> ids, uint64_t seed, PromptSharing sharing)
      : ids_(std::move(ids)), seed_(seed), sharing_(sharing) {}

  absl::StatusOr<Prompt> Make(const PromptSpec& spec) const override {
    const auto words = PromptWords(seed_, sharing_, spec, spec.tokens);
    const auto allowed = static_cast<uint32_t>(ids_.size());
    std::vector<int32_t> prompt(words.size());
    for (size_t i = 0; i < words.size(); ++i) prompt[i] = ids_[PickBelow(allowed, words[i])];
    return prompt;
  }

 private:
  const std::vector<int32_t> ids_;  // that a prompt may hold
  const uint64_t seed_;
  const PromptSharing sharing_;
};

// Pieces of text that stay one token each next to another one.
class TextPrompts final : public PromptMaker {
 public:
  TextPrompts(const Tokenizer* tokenizer, std::vector<std::string> pieces, uint64_t seed,
              PromptSharing sharing)
      : tokenizer_(tokenizer), pieces_(std::move(pieces)), seed_(seed), sharing_(sharing) {}

  absl::StatusOr<Prompt> Make(const PromptSpec& spec) const override {
    constexpr int kAttempts = 48;
    const auto words = PromptWords(seed_, sharing_, spec, 2 * int64_t{spec.tokens} + kTail);
    int64_t used = spec.tokens;
    int64_t found = 0;
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const std::string text = Join(words, used, attempt);
      BATON_ASSIGN_OR_RETURN(const auto ids, tokenizer_->Encode(text, true));
      found = static_cast<int64_t>(ids.size());
      if (found == spec.tokens && !text.empty()) return text;
      const auto most = static_cast<int64_t>(words.size()) - kTail;
      used = std::clamp<int64_t>(used + spec.tokens - found, 1, most);
    }
    return absl::OutOfRangeError(
        absl::StrCat("found no text that the tokenizer encodes to exactly ", spec.tokens,
                     " tokens, the last of ", kAttempts, " tried has ", found,
                     "; give other lengths, or send token ids"));
  }

 private:
  static constexpr int64_t kTail = 64;

  // The first `used` pieces. A later attempt at the same length ends in other words.
  std::string Join(const std::vector<uint32_t>& words, int64_t used, int attempt) const {
    std::string text;
    const auto count = static_cast<uint32_t>(pieces_.size());
    for (int64_t i = 0; i < used; ++i) {
      const int64_t shift = attempt > 2 && i + 4 >= used ? attempt : 0;
      text += pieces_[PickBelow(count, words[static_cast<size_t>(i + shift)])];
    }
    if (text.starts_with(' ')) text.erase(0, 1);
    return text;
  }

  const Tokenizer* const tokenizer_;
  const std::vector<std::string> pieces_;
  const uint64_t seed_;
  const PromptSharing sharing_;
};

bool Alphabetic(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) {
    return std::isalpha(static_cast<unsigned char>(c)) != 0 && static_cast<unsigned char>(c) < 128;
  });
}

// The tokens that are a space and a word, or, of a tokenizer without such, single letters.
absl::StatusOr<std::vector<std::string>> FindPieces(const Tokenizer& tokenizer, bool words) {
  constexpr size_t kEnough = 4096;
  std::vector<std::string> pieces;
  for (TokenId id = 0; id < tokenizer.vocab_size() && pieces.size() < kEnough; ++id) {
    if (!tokenizer.IsValid(id) || tokenizer.IsSpecial(id)) continue;
    const std::string_view text = tokenizer.TokenBytes(id);
    const bool fits = words ? text.size() >= 3 && text[0] == ' ' && Alphabetic(text.substr(1))
                            : text.size() == 1 && Alphabetic(text);
    if (!fits) continue;
    const std::string twice = absl::StrCat("a", std::string(text), std::string(text));
    BATON_ASSIGN_OR_RETURN(const auto once, tokenizer.Encode("a", false));
    BATON_ASSIGN_OR_RETURN(const auto ids, tokenizer.Encode(twice, false));
    if (ids.size() == once.size() + 2) pieces.emplace_back(text);
  }
  return pieces;
}

}  // namespace

absl::StatusOr<std::unique_ptr<PromptMaker>> MakeIdPrompts(const PromptVocabulary& vocabulary,
                                                           const Tokenizer* tokenizer,
                                                           uint64_t seed, PromptSharing sharing) {
  const std::unordered_set<int32_t> excluded(vocabulary.excluded.begin(),
                                             vocabulary.excluded.end());
  std::vector<int32_t> ids;
  for (int32_t id = 0; id < vocabulary.vocab_size; ++id) {
    if (excluded.contains(id)) continue;
    if (tokenizer != nullptr && (!tokenizer->IsValid(id) || tokenizer->IsSpecial(id))) continue;
    ids.push_back(id);
  }
  if (ids.size() < 2) {
    return absl::InvalidArgumentError(
        absl::StrCat("a vocabulary of ", vocabulary.vocab_size, " ids leaves ", ids.size(),
                     " to draw prompts from; expected at least 2 beside EOS and special tokens"));
  }
  return std::make_unique<IdPrompts>(std::move(ids), seed, sharing);
}

absl::StatusOr<std::unique_ptr<PromptMaker>> MakeTextPrompts(const Tokenizer* tokenizer,
                                                             uint64_t seed, PromptSharing sharing) {
  constexpr size_t kFewest = 16;
  BATON_ASSIGN_OR_RETURN(auto pieces, FindPieces(*tokenizer, true));
  if (pieces.size() < kFewest) {
    BATON_ASSIGN_OR_RETURN(pieces, FindPieces(*tokenizer, false));
  }
  if (pieces.size() < kFewest) {
    return absl::InvalidArgumentError(
        absl::StrCat("the tokenizer has ", pieces.size(),
                     " tokens of plain letters that stay apart; expected at least ", kFewest,
                     " to make text of an exact length from. Send token ids instead"));
  }
  return std::make_unique<TextPrompts>(tokenizer, std::move(pieces), seed, sharing);
}

}  // namespace baton::bench
