#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/generation_config.h"

namespace baton {

// The name of what ids mean, as 32 hexadecimal digits, made from tokenizer.json of the
// directory `model` and the tokens that other files name beside it, or what the GGUF file `model`
// says of its tokenizer, the size of the vocabulary and the EOS ids. A router whose texts have
// another one than a worker would turn the worker's ids into fluent garbage, and end answers where
// none ends.
absl::StatusOr<std::string> TextFingerprint(const std::string& model, int32_t vocab_size,
                                            const std::vector<EosSetEntry>& eos);

}  // namespace baton
