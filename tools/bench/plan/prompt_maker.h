#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "absl/status/statusor.h"
#include "common/text/tokenizer.h"

namespace baton::bench {

// What is drawn for one prompt.
struct PromptSpec {
  int64_t index = 0;
  int32_t tokens = 1;
  // The names of the prompt's leading blocks, as in TraceRow.
  std::span<const uint64_t> hash_ids;
};

// Which tokens several prompts have in common. By default none, so that no prefix cache helps.
struct PromptSharing {
  int32_t prefix_tokens = 0;   // the first tokens of every prompt
  int32_t block_tokens = 512;  // tokens of one hash id
};

// Makes prompts of exactly the asked number of tokens. A prompt is a function of the seed and its
// spec. Thread-safe.
class PromptMaker {
 public:
  using Prompt = std::variant<std::vector<int32_t>, std::string>;

  virtual ~PromptMaker() = default;
  virtual absl::StatusOr<Prompt> Make(const PromptSpec& spec) const = 0;
};

// What a server says about its vocabulary.
struct PromptVocabulary {
  int32_t vocab_size = 0;
  std::vector<int32_t> excluded;  // EOS ids and others that no prompt may hold
};

// Prompts as token ids, drawn evenly from the vocabulary. `tokenizer`, if there is one, excludes
// its special tokens and the ids without a token. INVALID_ARGUMENT when fewer than two ids are
// left.
absl::StatusOr<std::unique_ptr<PromptMaker>> MakeIdPrompts(const PromptVocabulary& vocabulary,
                                                           const Tokenizer* tokenizer,
                                                           uint64_t seed, PromptSharing sharing);

// Prompts as text of random words that `tokenizer`, which must outlive the maker, encodes to the
// asked number of tokens, with the special tokens that its file puts around a text. For servers
// that take no ids. Make answers OUT_OF_RANGE when it finds no such text.
absl::StatusOr<std::unique_ptr<PromptMaker>> MakeTextPrompts(const Tokenizer* tokenizer,
                                                             uint64_t seed, PromptSharing sharing);

}  // namespace baton::bench
