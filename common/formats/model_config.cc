#include "common/formats/model_config.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/gguf/gguf_config.h"
#include "common/formats/gguf/gguf_file.h"
#include "common/formats/json_reader.h"
#include "common/formats/rope_config.h"

namespace baton {
namespace {

// What transformers assumes when config.json leaves it out.
struct FamilyDefaults {
  ModelFamily family;
  const char* architecture;
  const char* model_type;
  int32_t kv_heads;  // 0 = as many as heads
  int32_t head_dim;  // 0 = hidden / heads
  int32_t max_positions;
  int32_t sliding_window;  // 0 = none
};

constexpr FamilyDefaults kFamilies[] = {
    {ModelFamily::kLlama, "LlamaForCausalLM", "llama", 0, 0, 2048, 0},
    {ModelFamily::kMistral, "MistralForCausalLM", "mistral", 8, 0, 131072, 4096},
    {ModelFamily::kQwen2, "Qwen2ForCausalLM", "qwen2", 32, 0, 32768, 4096},
    {ModelFamily::kQwen3, "Qwen3ForCausalLM", "qwen3", 32, 128, 32768, 4096},
};

// Bounds that keep every product of sizes below 2^60.
constexpr int64_t kMaxLayers = 4096;
constexpr int64_t kMaxHidden = 1 << 18;
constexpr int64_t kMaxHeads = 4096;
constexpr int64_t kMaxFfn = 1 << 20;
constexpr int64_t kMaxVocab = 1 << 24;
constexpr int64_t kMaxHeadDim = 256;
constexpr int64_t kHeadDimMultiple = 8;

// transformers chooses the code of a model by its model_type, other programs by its architecture.
absl::Status CheckModelType(const JsonReader& reader, const FamilyDefaults& family,
                            const std::string& model_type) {
  if (model_type.empty() || model_type == family.model_type) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(reader.where(), ": architecture ", family.architecture,
                   " contradicts model_type \"", model_type, "\"; expected \"", family.model_type,
                   "\": correct the one that does not describe the model"));
}

absl::StatusOr<const FamilyDefaults*> FindFamily(JsonReader& reader) {
  const std::vector<std::string> names = reader.Strings("architectures");
  const std::string model_type = reader.String("model_type", "");
  BATON_RETURN_IF_ERROR(reader.status());
  for (const FamilyDefaults& family : kFamilies) {
    if (names.empty() ? model_type == family.model_type
                      : names.size() == 1 && names[0] == family.architecture) {
      BATON_RETURN_IF_ERROR(CheckModelType(reader, family, model_type));
      return &family;
    }
  }
  std::string found = names.empty() ? absl::StrCat("model_type \"", model_type, "\"") : "";
  for (const std::string& name : names) absl::StrAppend(&found, found.empty() ? "" : ", ", name);
  return absl::InvalidArgumentError(absl::StrCat(reader.where(), ": architecture ", found,
                                                 " is not supported; take a model of ",
                                                 SupportedArchitectures()));
}

void ReadSizes(JsonReader& reader, const FamilyDefaults& family, ModelConfig& config) {
  config.layers = static_cast<int32_t>(reader.Int("num_hidden_layers", 1, kMaxLayers, {}));
  config.hidden = static_cast<int32_t>(reader.Int("hidden_size", 1, kMaxHidden, {}));
  config.heads = static_cast<int32_t>(reader.Int("num_attention_heads", 1, kMaxHeads, {}));
  config.ffn = static_cast<int32_t>(reader.Int("intermediate_size", 1, kMaxFfn, {}));
  config.vocab = static_cast<int32_t>(reader.Int("vocab_size", 1, kMaxVocab, {}));
  config.max_positions = static_cast<int32_t>(
      reader.Int("max_position_embeddings", 1, kMaxPositions, family.max_positions));

  // A null count of KV heads means one per query head, in every family.
  const bool as_heads = family.kv_heads == 0 || reader.Mentions("num_key_value_heads");
  config.kv_heads = static_cast<int32_t>(reader.Int("num_key_value_heads", 1, config.heads,
                                                    as_heads ? config.heads : family.kv_heads));
  if (config.heads % config.kv_heads != 0) {
    reader.Fail("num_key_value_heads",
                absl::StrCat("a divisor of num_attention_heads ", config.heads));
  }
  const bool derived = family.head_dim == 0 || reader.Mentions("head_dim");
  if (derived && !reader.Has("head_dim") && config.hidden % config.heads != 0) {
    reader.Fail("hidden_size", absl::StrCat("a multiple of num_attention_heads ", config.heads,
                                            ", or an explicit head_dim"));
  }
  config.head_dim = static_cast<int32_t>(reader.Int(
      "head_dim", 1, kMaxHidden, derived ? config.hidden / config.heads : family.head_dim));
  if (config.head_dim % kHeadDimMultiple != 0 || config.head_dim > kMaxHeadDim) {
    reader.Fail(reader.Has("head_dim") ? "head_dim" : "hidden_size",
                absl::StrCat("a head dimension (here ", config.head_dim, ") that is a multiple of ",
                             kHeadDimMultiple, " and at most ", kMaxHeadDim));
  }
}

void ReadArithmetic(JsonReader& reader, ModelConfig& config) {
  config.rms_eps = reader.Number("rms_norm_eps", 0, 1, 1e-6);
  config.tied_embeddings = reader.Bool("tie_word_embeddings", false);
  const ModelFamily family = config.family;
  if (family == ModelFamily::kLlama || family == ModelFamily::kQwen3) {
    config.qkv_bias = config.o_bias = reader.Bool("attention_bias", false);
  }
  if (family == ModelFamily::kLlama) config.mlp_bias = reader.Bool("mlp_bias", false);
  if (family == ModelFamily::kQwen2) config.qkv_bias = true;
  config.qk_norm = family == ModelFamily::kQwen3;

  const std::string activation = reader.String("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") reader.Fail("hidden_act", "\"silu\"");
  if (reader.Number("partial_rotary_factor", 0, 1, 1) != 1) {
    reader.Fail("partial_rotary_factor", "1, the only value supported");
  }
  config.dtype = reader.String(reader.Has("dtype") ? "dtype" : "torch_dtype", "");
  if (config.dtype != "" && config.dtype != "float32" && config.dtype != "bfloat16" &&
      config.dtype != "float16") {
    reader.Fail(reader.Has("dtype") ? "dtype" : "torch_dtype", "float32, bfloat16 or float16");
  }
}

// Which layers look back a limited way. Mistral: all, where a window is set. Qwen: none unless
// use_sliding_window, then those from max_window_layers on. `layer_types` overrules both.
void ReadWindows(JsonReader& reader, const FamilyDefaults& family, ModelConfig& config) {
  config.windows.assign(config.layers, 0);
  if (!reader.status().ok() || family.sliding_window == 0) return;
  const bool qwen = config.family != ModelFamily::kMistral;
  int64_t window = reader.Int("sliding_window", 0, kMaxPositions,
                              reader.Mentions("sliding_window") ? 0 : family.sliding_window);
  if (qwen && !reader.Bool("use_sliding_window", false)) window = 0;
  const int64_t first = qwen ? reader.Int("max_window_layers", 0, INT32_MAX, 28) : 0;
  const std::vector<std::string> types = reader.Strings("layer_types");
  if (!types.empty() && types.size() != config.windows.size()) {
    reader.Fail("layer_types", absl::StrCat("one entry for each of ", config.layers, " layers"));
    return;
  }
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    bool sliding = layer >= first;
    if (!types.empty()) {
      sliding = types[layer] == "sliding_attention";
      if (!sliding && types[layer] != "full_attention") {
        reader.Fail("layer_types", "entries full_attention or sliding_attention");
      }
    }
    if (sliding) config.windows[layer] = static_cast<int32_t>(window);
  }
}

// How many positions there are after YaRN. Models' pages have one add the rule for long contexts
// and leave max_position_embeddings as it is; other models count what is stretched.
int32_t StretchedPositions(const RopeConfig& rope, int32_t max_positions) {
  if (rope.scaling != RopeConfig::Scaling::kYarn) return max_positions;
  const double stretched = static_cast<double>(rope.original_positions) * rope.factor;
  const double most = std::min(stretched, static_cast<double>(kMaxPositions));
  return std::max(max_positions, static_cast<int32_t>(most));
}

absl::StatusOr<ModelConfig> FromJson(const nlohmann::json& json, const std::string& where) {
  JsonReader reader(json, where);
  BATON_ASSIGN_OR_RETURN(const FamilyDefaults* family, FindFamily(reader));
  ModelConfig config;
  config.family = family->family;
  config.architecture = family->architecture;
  ReadSizes(reader, *family, config);
  ReadArithmetic(reader, config);
  ReadWindows(reader, *family, config);
  config.eos_ids = reader.TokenIds("eos_token_id", config.vocab);
  BATON_RETURN_IF_ERROR(reader.status());
  BATON_ASSIGN_OR_RETURN(config.rope, ReadRopeConfig(json, where, config.max_positions));
  config.max_positions = StretchedPositions(config.rope, config.max_positions);
  BATON_ASSIGN_OR_RETURN(config.quantization, ReadQuantizationConfig(json, where));
  return config;
}

}  // namespace

std::string SupportedArchitectures() {
  std::string list;
  for (const FamilyDefaults& family : kFamilies) {
    absl::StrAppend(&list, list.empty() ? "" : ", ", family.architecture);
  }
  return list;
}

absl::StatusOr<ModelConfig> ParseModelConfig(std::string_view json_text, const std::string& where) {
  BATON_ASSIGN_OR_RETURN(const nlohmann::json json, ParseJsonObject(json_text, where));
  return FromJson(json, where);
}

absl::StatusOr<ModelConfig> LoadModelConfig(const std::string& model) {
  if (IsGgufPath(model)) return LoadGgufModelConfig(model);
  const std::string path = model + "/config.json";
  BATON_ASSIGN_OR_RETURN(const nlohmann::json json, ReadJsonObject(path));
  return FromJson(json, path);
}

}  // namespace baton
