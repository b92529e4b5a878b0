#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "common/text/tokenizer.h"

namespace baton {

// Has the tokens of another tokenizer, and encodes by the longest that fits, from the left. Stands
// for tokenizers whose tokens are of several bytes where no file of one is at hand. Immutable.
class LongestTokenizer final : public Tokenizer {
 public:
  explicit LongestTokenizer(std::shared_ptr<const Tokenizer> tokens) : tokens_(std::move(tokens)) {
    for (TokenId id = 0; id < tokens_->vocab_size(); ++id) {
      const std::string_view bytes = tokens_->TokenBytes(id);
      if (tokens_->IsSpecial(id) || bytes.empty()) continue;
      ids_.emplace(bytes, id);
      longest_ = std::max(longest_, bytes.size());
    }
  }

  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text, bool) const override {
    std::vector<TokenId> ids;
    while (!text.empty()) {
      size_t length = std::min(longest_, text.size());
      while (!ids_.contains(text.substr(0, length))) --length;  // every byte is a token
      ids.push_back(ids_.at(text.substr(0, length)));
      text.remove_prefix(length);
    }
    return ids;
  }
  std::string_view TokenBytes(TokenId id) const override { return tokens_->TokenBytes(id); }
  std::string_view TokenText(TokenId id) const override { return tokens_->TokenText(id); }
  bool IsSpecial(TokenId id) const override { return tokens_->IsSpecial(id); }
  bool IsValid(TokenId id) const override { return tokens_->IsValid(id); }
  int vocab_size() const override { return tokens_->vocab_size(); }
  std::optional<TokenId> TokenToId(std::string_view token) const override {
    return tokens_->TokenToId(token);
  }
  bool DecodeDropsLeadingSpace() const override { return false; }

 private:
  const std::shared_ptr<const Tokenizer> tokens_;
  std::unordered_map<std::string_view, TokenId> ids_;
  size_t longest_ = 1;
};

}  // namespace baton
