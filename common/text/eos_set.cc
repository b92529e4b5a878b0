#include "common/text/eos_set.h"

#include <optional>

#include "common/base/status.h"
#include "common/formats/gguf/gguf_file.h"
#include "common/formats/gguf/gguf_tokenizer.h"
#include "common/text/special_tokens.h"

namespace baton {
namespace {

absl::StatusOr<std::vector<EosSetEntry>> OfGguf(const std::string& path, const ModelConfig& config,
                                                const std::function<std::string(TokenId)>& text) {
  BATON_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(path));
  BATON_ASSIGN_OR_RETURN(const GgufText said, ReadGgufText(*file));
  std::vector<EosSetEntry> set;
  for (const auto& [id, source] : said.ends) {
    BATON_RETURN_IF_ERROR(AddToEosSet(config, id, source, text, set));
  }
  return set;
}

}  // namespace

absl::StatusOr<std::vector<EosSetEntry>> LoadEosSet(const std::string& model,
                                                    const ModelConfig& config,
                                                    const GenerationConfig& generation,
                                                    const Tokenizer* tokenizer) {
  const auto text_of = [&](TokenId id) { return std::string(tokenizer->TokenText(id)); };
  if (IsGgufPath(model)) {
    if (tokenizer == nullptr) return OfGguf(model, config, nullptr);
    return OfGguf(model, config, text_of);
  }
  BATON_ASSIGN_OR_RETURN(const SpecialTokens special, LoadSpecialTokens(model));
  if (tokenizer == nullptr) return BuildEosSet(config, generation, std::nullopt, nullptr);
  std::optional<TokenizerEos> eos;
  if (special.eos_token) {
    // A token that only tokenizer_config.json knows may have an id for which there are no logits.
    // It is never drawn, so it ends nothing.
    const auto id = tokenizer->TokenToId(*special.eos_token);
    if (id && *id < config.vocab) {
      eos = TokenizerEos{.id = *id, .text = *special.eos_token};
    }
  }
  return BuildEosSet(config, generation, eos, text_of);
}

}  // namespace baton
