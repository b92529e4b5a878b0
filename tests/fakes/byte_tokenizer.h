#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "common/text/tokenizer.h"

namespace baton {

// A Tokenizer without a file: ids 0..255 are bytes, then come the given pieces, then the given
// special tokens. Encodes byte by byte. Immutable.
class ByteTokenizer final : public Tokenizer {
 public:
  explicit ByteTokenizer(std::vector<std::string> pieces = {},
                         std::vector<std::string> specials = {})
      : special_begin_(256 + static_cast<TokenId>(pieces.size())) {
    for (int byte = 0; byte < 256; ++byte) texts_.emplace_back(1, static_cast<char>(byte));
    for (std::string& piece : pieces) texts_.push_back(std::move(piece));
    for (std::string& special : specials) texts_.push_back(std::move(special));
  }

  // The first special token, where there is one.
  TokenId eos() const { return special_begin_; }

  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text, bool) const override {
    std::vector<TokenId> ids;
    for (const char c : text) ids.push_back(static_cast<unsigned char>(c));
    return ids;
  }
  std::string_view TokenBytes(TokenId id) const override { return TokenText(id); }
  std::string_view TokenText(TokenId id) const override {
    return IsValid(id) ? std::string_view(texts_[static_cast<size_t>(id)]) : std::string_view();
  }
  bool IsSpecial(TokenId id) const override { return IsValid(id) && id >= special_begin_; }
  bool IsValid(TokenId id) const override { return id >= 0 && id < vocab_size(); }
  int vocab_size() const override { return static_cast<int>(texts_.size()); }
  std::optional<TokenId> TokenToId(std::string_view token) const override {
    for (size_t i = 0; i < texts_.size(); ++i) {
      if (texts_[i] == token) return static_cast<TokenId>(i);
    }
    return std::nullopt;
  }
  bool DecodeDropsLeadingSpace() const override { return false; }

 private:
  std::vector<std::string> texts_;  // by id
  TokenId special_begin_;
};

}  // namespace baton
