#include "common/text/special_tokens.h"

#include "common/rust/rust_face.h"

namespace baton {
namespace {

std::optional<std::string> Get(const BatonSpecialTokens* tokens, std::string_view name) {
  const BatonSlice text = baton_special_tokens_get(tokens, rust::SliceOf(name));
  if (text.data == nullptr) return std::nullopt;
  return std::string(rust::ViewOf(text));
}

}  // namespace

absl::StatusOr<SpecialTokens> LoadSpecialTokens(const std::string& model_dir) {
  BatonSpecialTokens* loaded = nullptr;
  BatonBuffer error;
  const BatonStatus status = baton_special_tokens_load(rust::SliceOf(model_dir), &loaded, &error);
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
