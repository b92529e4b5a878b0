#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/ids.h"
#include "common/rust/baton_guide.h"
#include "common/rust/rust_face.h"
#include "common/sample/guide_spec.h"
#include "common/text/tokenizer.h"

namespace baton {

// A grammar that was compiled for a vocabulary. Immutable and thread-safe.
class CompiledGuide final {
 public:
  using State = rust::Handle<BatonGuideState, baton_guide_state_free>;

  explicit CompiledGuide(BatonGuide* guide) : guide_(guide) {}
  // The state of an answer that has no tokens yet.
  absl::StatusOr<State> Start() const;

 private:
  const rust::Handle<BatonGuide, baton_guide_free> guide_;
};

// The tokens that masks are over, how texts are made of them, and the ids that end an answer.
// Immutable and thread-safe.
class GuideVocabulary final {
 public:
  // How much of a forced text is looked at for its first token.
  static constexpr size_t kForcedWindow = 64;

  // `width` is that of the model's logits; ids beyond the tokenizer's are never allowed.
  // INVALID_ARGUMENT without EOS ids. Takes about a second for 128 000 tokens.
  static absl::StatusOr<std::unique_ptr<GuideVocabulary>> Make(
      std::shared_ptr<const Tokenizer> tokenizer, int32_t width, std::span<const TokenId> eos_ids);

  // INVALID_ARGUMENT: INVALID_GUIDE, with the field, for what is no guide of its kind, what no
  // answer can follow, and what would cost too much. RESOURCE_EXHAUSTED: FULL, with the field,
  // where this machine could not compile it now, which says nothing of the guide. Takes a few
  // milliseconds, and by the bounds of the Rust library at most about one second.
  absl::StatusOr<std::shared_ptr<const CompiledGuide>> Compile(const GuideSpec& guide) const;

  // The token that an answer goes on with whose text goes on with `bytes` and anything behind them,
  // if it is certain: the one with which the tokenizer begins the text, behind `before`, the
  // answer's last token (or -1), where no token reaches from this one's bytes beyond the known
  // text.
  std::optional<TokenId> FirstTokenOf(std::string_view bytes, TokenId before) const;

  // Of 32 bits, of a mask.
  size_t words() const { return words_; }
  // The mask that allows nothing but EOS.
  const std::vector<uint32_t>& eos_mask() const { return eos_mask_; }

 private:
  using Handle = rust::Handle<BatonGuideVocabulary, baton_guide_vocabulary_free>;
  GuideVocabulary(Handle handle, std::shared_ptr<const Tokenizer> tokenizer, int32_t width,
                  std::span<const TokenId> eos_ids);

  bool IsText(TokenId id) const;
  std::optional<TokenId> FirstTokenAfter(std::string_view before, std::string_view text,
                                         TokenId id) const;
  // Whether a token begins with `bytes` and goes on.
  bool Continues(std::string_view bytes) const;

  const Handle handle_;
  const std::shared_ptr<const Tokenizer> tokenizer_;
  std::vector<std::string_view> spellings_;  // of tokens that are text, ascending
  const int32_t width_;
  const size_t words_;
  std::vector<uint32_t> eos_mask_;
};

// What a client is told about a guide that cannot be used.
absl::Status InvalidGuide(GuideKind kind, std::string_view why);

}  // namespace baton
