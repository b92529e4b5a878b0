#include "common/text/special_tokens.h"

#include "common/base/status.h"
#include "common/formats/gguf/gguf_file.h"
#include "common/formats/gguf/gguf_tokenizer.h"
#include "common/rust/rust_face.h"

namespace baton {
namespace {

std::optional<std::string> Get(const BatonSpecialTokens* tokens, std::string_view name) {
  const BatonSlice text = baton_special_tokens_get(tokens, rust::SliceOf(name));
  if (text.data == nullptr) return std::nullopt;
  return std::string(rust::ViewOf(text));
}

absl::StatusOr<SpecialTokens> OfGguf(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(path));
  BATON_ASSIGN_OR_RETURN(const GgufText text, ReadGgufText(*file));
  const auto optional = [](const std::string& token) {
    return token.empty() ? std::nullopt : std::optional(token);
  };
  return SpecialTokens{.bos_token = optional(text.bos),
                       .eos_token = optional(text.eos),
                       .unk_token = optional(text.unknown)};
}

}  // namespace

absl::StatusOr<SpecialTokens> LoadSpecialTokens(const std::string& model) {
  if (IsGgufPath(model)) return OfGguf(model);
  BatonSpecialTokens* loaded = nullptr;
  BatonBuffer error;
  const BatonStatus status = baton_special_tokens_load(rust::SliceOf(model), &loaded, &error);
  if (status != BATON_OK) return rust::TakeError(status, error);
  const rust::Handle<BatonSpecialTokens, baton_special_tokens_free> tokens(loaded);
  SpecialTokens result;
  result.bos_token = Get(tokens.get(), "bos_token");
  result.eos_token = Get(tokens.get(), "eos_token");
  result.pad_token = Get(tokens.get(), "pad_token");
  result.unk_token = Get(tokens.get(), "unk_token");
  return result;
}

}  // namespace baton
