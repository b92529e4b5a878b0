#pragma once

#include <string>
#include <string_view>
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

// What a process tells its log where the set is empty.
inline constexpr std::string_view kNoEosToken =
    "the model names no EOS token: answers end only at stop strings, stop_token_ids, the end of a "
    "grammar or their length limit; name one in generation_config.json (eos_token_id)";

}  // namespace baton
