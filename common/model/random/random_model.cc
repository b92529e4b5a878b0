#include "common/model/random/random_model.h"

#include <filesystem>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/model_config.h"
#include "common/model/random/byte_tokenizer.h"
#include "common/model/random/random_weights.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Json = nlohmann::ordered_json;

struct Arch {
  const char* name;
  const char* architecture;
};
constexpr Arch kArchs[] = {{"llama", "LlamaForCausalLM"},
                           {"mistral", "MistralForCausalLM"},
                           {"qwen2", "Qwen2ForCausalLM"},
                           {"qwen3", "Qwen3ForCausalLM"}};

absl::StatusOr<Json> ConfigJson(const RandomModelSpec& spec) {
  const char* architecture = nullptr;
  for (const Arch& arch : kArchs) {
    if (spec.arch == arch.name) architecture = arch.architecture;
  }
  if (architecture == nullptr) {
    return absl::InvalidArgumentError(
        absl::StrCat("architecture \"", spec.arch, "\"; expected llama, mistral, qwen2 or qwen3"));
  }
  Json json = {{"architectures", {architecture}},
               {"model_type", spec.arch},
               {"vocab_size", spec.vocab},
               {"hidden_size", spec.hidden},
               {"intermediate_size", spec.ffn},
               {"num_hidden_layers", spec.layers},
               {"num_attention_heads", spec.heads},
               {"num_key_value_heads", spec.kv_heads},
               {"head_dim", spec.head_dim},
               {"hidden_act", "silu"},
               {"max_position_embeddings", spec.max_positions},
               {"rms_norm_eps", 1e-6},
               {"rope_theta", 10000.0},
               {"tie_word_embeddings", spec.tied_embeddings},
               {"torch_dtype", spec.dtype},
               {"bos_token_id", ByteTokenizer::kBos},
               {"eos_token_id", ByteTokenizer::kEos}};
  if (spec.arch == "mistral") json["sliding_window"] = nullptr;
  return json;
}

absl::Status WriteText(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary);
  file << text;
  file.close();
  if (!file) return absl::InternalError(absl::StrCat(path, " cannot be written"));
  return absl::OkStatus();
}

absl::Status MakeEmptyDirectory(const std::string& dir) {
  std::error_code error;
  std::filesystem::create_directories(dir, error);
  if (error) {
    return absl::InvalidArgumentError(absl::StrCat(dir, " cannot be made: ", error.message()));
  }
  if (!std::filesystem::is_empty(dir, error) || error) {
    return absl::AlreadyExistsError(
        absl::StrCat(dir, " is not an empty directory; name a new one"));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status WriteRandomModel(const RandomModelSpec& spec, const std::string& dir) {
  BATON_ASSIGN_OR_RETURN(const Json json, ConfigJson(spec));
  BATON_ASSIGN_OR_RETURN(const ModelConfig config,
                         ParseModelConfig(json.dump(), "the random model's config.json"));
  if (config.q_size() > 1 << 20) {
    return absl::InvalidArgumentError(
        absl::StrCat(config.heads, " heads of ", config.head_dim, " are too many"));
  }
  if (spec.vocab < ByteTokenizer::kSize) {
    return absl::InvalidArgumentError(absl::StrCat("a vocabulary of ", spec.vocab,
                                                   "; expected at least ", ByteTokenizer::kSize,
                                                   ": 256 bytes, BOS and EOS"));
  }
  BATON_RETURN_IF_ERROR(MakeEmptyDirectory(dir));
  BATON_RETURN_IF_ERROR(WriteRandomWeights(config, spec.seed, dir + "/model.safetensors"));
  const Json generation = {{"bos_token_id", ByteTokenizer::kBos},
                           {"eos_token_id", ByteTokenizer::kEos}};
  BATON_RETURN_IF_ERROR(WriteText(dir + "/generation_config.json", generation.dump(2) + "\n"));
  BATON_RETURN_IF_ERROR(WriteText(dir + "/tokenizer.json", ByteTokenizer::TokenizerJson()));
  BATON_RETURN_IF_ERROR(
      WriteText(dir + "/tokenizer_config.json", ByteTokenizer::TokenizerConfigJson()));
  // config.json comes last, so that a directory which has one is whole.
  return WriteText(dir + "/config.json", json.dump(2) + "\n");
}

}  // namespace baton
