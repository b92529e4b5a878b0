#include "common/text/eos_set.h"

#include <optional>

#include "common/base/status.h"
#include "common/text/special_tokens.h"

namespace baton {

absl::StatusOr<std::vector<EosSetEntry>> LoadEosSet(const std::string& model_dir,
                                                    const ModelConfig& config,
                                                    const GenerationConfig& generation,
                                                    const Tokenizer* tokenizer) {
  BATON_ASSIGN_OR_RETURN(const SpecialTokens special, LoadSpecialTokens(model_dir));
  if (tokenizer == nullptr) return BuildEosSet(config, generation, std::nullopt, nullptr);
  std::optional<TokenizerEos> eos;
  if (special.eos_token) {
    if (const auto id = tokenizer->TokenToId(*special.eos_token)) {
      eos = TokenizerEos{.id = *id, .text = *special.eos_token};
    }
  }
  return BuildEosSet(config, generation, eos,
                     [&](TokenId id) { return std::string(tokenizer->TokenText(id)); });
}

}  // namespace baton
