#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "common/formats/generation_config.h"
#include "common/formats/gguf/gguf_file.h"
#include "common/formats/model_config.h"

namespace baton {

// How many heads the queries and keys of a layer have, and whether the rows of a head's two halves
// alternate there.
struct GgufHeads {
  int32_t heads = 0;
  int32_t kv_heads = 0;
  bool alternate = false;

  // Those of the tensor of that name in the file; 0 for what is neither query nor key.
  int32_t CountIn(std::string_view tensor) const;
};
absl::StatusOr<GgufHeads> ReadGgufHeads(const GgufFile& file);

// The shape and arithmetic of the model in a GGUF file, from its metadata and from which tensors
// there are. INVALID_ARGUMENT for another architecture than llama (which Mistral is), qwen2 and
// qwen3, and for what would be computed otherwise here.
absl::StatusOr<ModelConfig> ReadGgufModelConfig(const GgufFile& file);

// The defaults of requests that the file recommends ("general.sampling.…"). Its EOS ids are those
// of its tokenizer.
absl::StatusOr<GenerationConfig> ReadGgufGenerationConfig(const GgufFile& file);

// The same of the file at `path`.
absl::StatusOr<ModelConfig> LoadGgufModelConfig(const std::string& path);
absl::StatusOr<GenerationConfig> LoadGgufGenerationConfig(const std::string& path);

}  // namespace baton
