#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/base/ids.h"

namespace baton {

// Text to token ids and token ids to bytes, as a Hugging Face tokenizer.json and the tokens named
// beside it define it.
// Immutable after loading: every method may be called from any thread at once.
//
// A token stands for bytes, not for text: one character may be spread over several tokens. Nothing
// here decodes a token into characters; StreamingDetokenizer does that for a stream of them.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The ids of `text`. `add_special_tokens` runs the post-processor of the file (which, for most
  // Llama models, puts BOS in front); as in transformers 5, only the file decides, not
  // add_bos_token of tokenizer_config.json. A prompt rendered by a ChatTemplate already contains
  // its special tokens as text and is encoded with false. Truncation and padding that the file may
  // configure are ignored. Costs about 0.5 s per megabyte: call it on a pool. INVALID_ARGUMENT with
  // Reason::kInvalidText when `text` is not UTF-8.
  virtual absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                                      bool add_special_tokens) const = 0;

  // The bytes that `id` adds to a text that it continues: a word-initial piece keeps its space.
  // Empty for ids without a token. The view lives as long as the tokenizer.
  virtual std::string_view TokenBytes(TokenId id) const = 0;

  // The spelling in the vocabulary ("Ġthe", "▁the", "<0x0A>", "</s>"); empty for ids without a
  // token.
  virtual std::string_view TokenText(TokenId id) const = 0;

  // Control tokens such as BOS, EOS and chat markers, which skip_special_tokens leaves out.
  virtual bool IsSpecial(TokenId id) const = 0;

  // Whether the vocabulary has a token of this id. Vocabularies may have gaps, and a model's logits
  // are often wider than its vocabulary.
  virtual bool IsValid(TokenId id) const = 0;

  // The highest id + 1, added tokens included.
  virtual int vocab_size() const = 0;

  virtual std::optional<TokenId> TokenToId(std::string_view token) const = 0;

  // Whether decoding a whole text drops one leading space, which encoding had put there (Llama 2,
  // WordPiece). Streams that continue a prompt never do.
  virtual bool DecodeDropsLeadingSpace() const = 0;

  // The text of a whole sequence, e.g. for Detokenize: the tokens' bytes joined, each maximal
  // invalid UTF-8 part replaced by U+FFFD, the leading space handled as above. Ids without a token
  // add nothing.
  std::string Decode(std::span<const TokenId> ids, bool skip_special_tokens) const;
};

// Loads tokenizer.json of the directory `model`, or the tokenizer of the GGUF file `model`. Beside
// tokenizer.json, tokenizer_config.json, special_tokens_map.json and added_tokens.json name tokens
// that are found in a text as a whole, as in transformers; one that the vocabulary lacks gets the
// next id, for which a model may have no embedding, and then no text with it can be a prompt.
// NOT_FOUND when there is none; INVALID_ARGUMENT, naming the file and the defect, when it cannot be
// used.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& model);
// The tokenizer of one tokenizer.json alone, for tests and benchmarks.
absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerFile(const std::string& path);

}  // namespace baton
