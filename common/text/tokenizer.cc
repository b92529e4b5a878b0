#include "common/text/tokenizer.h"

#include <utility>

#include "common/base/status.h"
#include "common/formats/gguf/gguf_file.h"
#include "common/formats/gguf/gguf_tokenizer.h"
#include "common/rust/rust_face.h"
#include "common/text/detokenizer.h"

namespace baton {
namespace {

using TokenizerHandle = rust::Handle<BatonTokenizer, baton_tokenizer_free>;

// Views into the Rust table are taken once: a lookup is then one array access.
class RustTokenizer final : public Tokenizer {
 public:
  explicit RustTokenizer(TokenizerHandle handle) : handle_(std::move(handle)) {
    const uint32_t size = baton_tokenizer_size(handle_.get());
    tokens_.reserve(size);
    for (uint32_t id = 0; id < size; ++id) {
      tokens_.push_back(baton_tokenizer_token(handle_.get(), id));
    }
  }

  absl::StatusOr<std::vector<TokenId>> Encode(std::string_view text,
                                              bool add_special_tokens) const override {
    BatonIds ids;
    BatonBuffer error;
    const BatonStatus status = baton_tokenizer_encode(handle_.get(), rust::SliceOf(text),
                                                      add_special_tokens ? 1 : 0, &ids, &error);
    if (status == BATON_INVALID) {
      return InvalidArgument(Reason::kInvalidText, "", rust::TakeString(error));
    }
    if (status != BATON_OK) return rust::TakeError(status, error);
    std::vector<TokenId> result(ids.data, ids.data + ids.size);
    baton_ids_free(ids);
    return result;
  }

  std::string_view TokenBytes(TokenId id) const override {
    return IsValid(id) ? rust::ViewOf(Token(id).bytes) : std::string_view();
  }
  std::string_view TokenText(TokenId id) const override {
    return IsValid(id) ? rust::ViewOf(Token(id).text) : std::string_view();
  }
  bool IsSpecial(TokenId id) const override { return IsValid(id) && Token(id).special != 0; }
  bool IsValid(TokenId id) const override {
    return id >= 0 && id < vocab_size() && Token(id).valid != 0;
  }
  int vocab_size() const override { return static_cast<int>(tokens_.size()); }

  std::optional<TokenId> TokenToId(std::string_view token) const override {
    const int64_t id = baton_tokenizer_id(handle_.get(), rust::SliceOf(token));
    if (id < 0) return std::nullopt;
    return static_cast<TokenId>(id);
  }
  bool DecodeDropsLeadingSpace() const override {
    return baton_tokenizer_drops_leading_space(handle_.get()) != 0;
  }

 private:
  const BatonToken& Token(TokenId id) const { return tokens_[static_cast<size_t>(id)]; }

  const TokenizerHandle handle_;
  std::vector<BatonToken> tokens_;  // by id; views into *handle_
};

absl::StatusOr<std::unique_ptr<Tokenizer>> Made(BatonStatus status, BatonTokenizer* tokenizer,
                                                BatonBuffer error) {
  if (status != BATON_OK) return rust::TakeError(status, error);
  return std::make_unique<RustTokenizer>(TokenizerHandle(tokenizer));
}

}  // namespace

std::string Tokenizer::Decode(std::span<const TokenId> ids, bool skip_special_tokens) const {
  StreamingDetokenizer detokenizer(*this, skip_special_tokens);
  std::string text;
  for (const TokenId id : ids) text += detokenizer.Append(id);
  text += detokenizer.Flush();
  if (DecodeDropsLeadingSpace() && text.starts_with(' ')) text.erase(0, 1);
  return text;
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizer(const std::string& model) {
  BatonTokenizer* tokenizer = nullptr;
  BatonBuffer error;
  BatonStatus status = BATON_OK;
  if (IsGgufPath(model)) {
    BATON_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(model));
    BATON_ASSIGN_OR_RETURN(const std::string json, GgufTokenizerJson(*file));
    status =
        baton_tokenizer_from_json(rust::SliceOf(json), rust::SliceOf(model), &tokenizer, &error);
  } else {
    status = baton_tokenizer_load_model(rust::SliceOf(model), &tokenizer, &error);
  }
  return Made(status, tokenizer, error);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> LoadTokenizerFile(const std::string& path) {
  BatonTokenizer* tokenizer = nullptr;
  BatonBuffer error;
  const BatonStatus status = baton_tokenizer_load(rust::SliceOf(path), &tokenizer, &error);
  return Made(status, tokenizer, error);
}

}  // namespace baton
