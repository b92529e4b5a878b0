#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/generation_config.h"
#include "common/formats/model_config.h"
#include "common/text/tokenizer.h"

namespace baton {

// The EOS set of `model`, a directory or a GGUF file, with the texts and sources of its ids, the
// tokenizer's own first. `tokenizer` is null for a directory without one: then its EOS token is
// unknown and ids have no text.
absl::StatusOr<std::vector<EosSetEntry>> LoadEosSet(const std::string& model,
                                                    const ModelConfig& config,
                                                    const GenerationConfig& generation,
                                                    const Tokenizer* tokenizer);

}  // namespace baton
