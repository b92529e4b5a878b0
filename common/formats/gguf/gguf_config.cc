#include "common/formats/gguf/gguf_config.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <optional>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/gguf/gguf_names.h"
#include "common/formats/json_reader.h"
#include "common/formats/rope_config.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

constexpr char kArchitectureKey[] = "general.architecture";
constexpr int64_t kMany = 1 << 24;  // more than any size of a model, which are checked later

struct GgufFamily {
  std::string_view name;
  const char* architecture;  // of config.json
};
constexpr GgufFamily kGgufFamilies[] = {
    {"llama", "LlamaForCausalLM"}, {"qwen2", "Qwen2ForCausalLM"}, {"qwen3", "Qwen3ForCausalLM"}};

// What may stand in the metadata of an architecture. Any other key may change the arithmetic, and
// is refused unless it says 0 or false.
constexpr std::string_view kKnownKeys[] = {"vocab_size",
                                           "context_length",
                                           "embedding_length",
                                           "block_count",
                                           "feed_forward_length",
                                           "tensor_data_layout",
                                           "attention.head_count",
                                           "attention.head_count_kv",
                                           "attention.key_length",
                                           "attention.value_length",
                                           "attention.layer_norm_rms_epsilon",
                                           "attention.causal",
                                           "attention.sliding_window",
                                           "rope.dimension_count",
                                           "rope.freq_base",
                                           "rope.scale_linear",
                                           "rope.scaling.type",
                                           "rope.scaling.factor",
                                           "rope.scaling.original_context_length",
                                           "rope.scaling.finetuned",
                                           "rope.scaling.yarn_beta_fast",
                                           "rope.scaling.yarn_beta_slow"};

absl::StatusOr<const GgufFamily*> FindGgufFamily(JsonReader& reader) {
  const std::string name = reader.String(kArchitectureKey, "");
  BATON_RETURN_IF_ERROR(reader.status());
  std::string known;
  for (const GgufFamily& family : kGgufFamilies) {
    if (family.name == name) return &family;
    absl::StrAppend(&known, known.empty() ? "" : ", ", std::string(family.name));
  }
  reader.Fail(kArchitectureKey,
              absl::StrCat("one of ", known, ", the architectures that are served"));
  return reader.status();
}

bool SaysNothing(const nlohmann::json& value) {
  if (value.is_boolean()) return !value.get<bool>();
  return value.is_number() && value.get<double>() == 0;
}

// Reads the keys of an architecture, which begin with its name.
class ArchitectureReader final {
 public:
  ArchitectureReader(const GgufFile& file, const GgufFamily& family, const nlohmann::json& metadata)
      : file_(file),
        family_(family),
        prefix_(absl::StrCat(std::string(family.name), ".")),
        metadata_(metadata),
        reader_(metadata, file.path()) {}

  // The members of a config.json of the same meaning.
  absl::StatusOr<nlohmann::json> AsConfig();

 private:
  std::string Key(const std::string& key) const { return prefix_ + key; }
  bool Has(const std::string& key) const { return reader_.Has(Key(key)); }
  int64_t Int(const std::string& key, std::optional<int64_t> fallback) {
    return reader_.Int(Key(key), 0, kMany, fallback);
  }
  // A size that may be given per layer; all of them must be equal.
  int64_t OfAllLayers(const std::string& key, std::optional<int64_t> fallback);
  absl::Status CheckKeys();
  void ReadRope(int64_t head_dim, nlohmann::json& config);
  void ReadWindow(int64_t context, nlohmann::json& config);

  const GgufFile& file_;
  const GgufFamily& family_;
  const std::string prefix_;
  const nlohmann::json& metadata_;
  JsonReader reader_;
};

absl::Status ArchitectureReader::CheckKeys() {
  for (const GgufValue& value : file_.metadata()) {
    if (!value.key.starts_with(prefix_)) continue;
    const std::string_view key = value.key.substr(prefix_.size());
    if (std::ranges::find(kKnownKeys, key) != std::end(kKnownKeys)) {
      BATON_RETURN_IF_ERROR(file_.CheckScalars({&value.key, 1}));
      continue;
    }
    const auto found = metadata_.find(std::string(value.key));
    if (found != metadata_.end() && SaysNothing(*found)) continue;
    return file_.Refuse(absl::StrCat("\"", ShownGgufName(value.key),
                                     "\" is not known, and not 0 or false; expected no such key: "
                                     "it may change the arithmetic"));
  }
  if (!reader_.Bool(Key("attention.causal"), true)) reader_.Fail(Key("attention.causal"), "true");
  return reader_.status();
}

int64_t ArchitectureReader::OfAllLayers(const std::string& key, std::optional<int64_t> fallback) {
  const auto found = metadata_.find(Key(key));
  if (found == metadata_.end() || !found->is_array()) return Int(key, fallback);
  const bool equal =
      !found->empty() && std::ranges::all_of(*found, [&](const nlohmann::json& value) {
        return value.is_number_integer() && value == found->front();
      });
  if (!equal) reader_.Fail(Key(key), "one integer for all layers");
  if (!equal) return 1;
  const nlohmann::json first = {{Key(key), found->front()}};
  JsonReader reader(first, file_.path());
  const int64_t value = reader.Int(Key(key), 0, kMany, fallback);
  if (!reader.status().ok()) reader_.Fail(Key(key), absl::StrCat("integers from 0 to ", kMany));
  return value;
}

void ArchitectureReader::ReadRope(int64_t head_dim, nlohmann::json& config) {
  nlohmann::json rope = {{"rope_theta", reader_.Number(Key("rope.freq_base"), 1, 1e12, 10000)}};
  if (Int("rope.dimension_count", head_dim) != head_dim) {
    reader_.Fail(Key("rope.dimension_count"),
                 absl::StrCat(head_dim, ", the dimension of a head: all of it is rotated"));
  }
  std::string type = reader_.String(Key("rope.scaling.type"), "");
  const bool old = !Has("rope.scaling.factor") && Has("rope.scale_linear");
  const std::string factor_key = Key(old ? "rope.scale_linear" : "rope.scaling.factor");
  if (type.empty()) {  // a factor alone is linear; 0 and 1 say that there is none
    const double factor = reader_.Number(factor_key, 0, 1e6, 1);
    if (factor != 0 && factor != 1) type = "linear";
  }
  if (type == "linear" || type == "yarn") {
    rope["rope_type"] = type;
    rope["factor"] = reader_.Number(factor_key, 1e-3, 1e6, {});
  } else if (!type.empty() && type != "none") {
    reader_.Fail(Key("rope.scaling.type"), "none, linear or yarn");
  }
  if (type == "yarn") {
    if (Has("rope.scaling.original_context_length")) {
      rope["original_max_position_embeddings"] =
          reader_.Int(Key("rope.scaling.original_context_length"), 1, kMaxPositions, {});
    }
    rope["beta_fast"] = reader_.Number(Key("rope.scaling.yarn_beta_fast"), 1e-6, 1e6, 32);
    rope["beta_slow"] = reader_.Number(Key("rope.scaling.yarn_beta_slow"), 1e-6, 1e6, 1);
  }
  config["rope_parameters"] = std::move(rope);
}

// Mistral is a llama whose layers all look back a limited way. Which layers of a Qwen do is not
// said in the file.
void ArchitectureReader::ReadWindow(int64_t context, nlohmann::json& config) {
  const int64_t window = reader_.Int(Key("attention.sliding_window"), 0, kMaxPositions, 0);
  if (window == 0 || window >= context) return;
  if (family_.name != "llama") {
    reader_.Fail(Key("attention.sliding_window"),
                 absl::StrCat("0, or at least the context of ", context,
                              ": which layers have a window is not said"));
    return;
  }
  config["architectures"] = {"MistralForCausalLM"};
  config["sliding_window"] = window;
}

absl::StatusOr<nlohmann::json> ArchitectureReader::AsConfig() {
  BATON_RETURN_IF_ERROR(CheckKeys());
  nlohmann::json config = {{"architectures", {family_.architecture}}};
  const int64_t heads = OfAllLayers("attention.head_count", {});
  const int64_t hidden = Int("embedding_length", {});
  const int64_t context = reader_.Int(Key("context_length"), 1, kMaxPositions, {});
  const int64_t derived = heads > 0 ? hidden / heads : 0;
  const int64_t head_dim = Int("attention.key_length", derived);
  if (Int("attention.value_length", head_dim) != head_dim) {
    reader_.Fail(Key("attention.value_length"),
                 absl::StrCat(head_dim, ", as ", Key("attention.key_length")));
  }
  config["num_hidden_layers"] = Int("block_count", {});
  config["hidden_size"] = hidden;
  config["num_attention_heads"] = heads;
  config["num_key_value_heads"] = OfAllLayers("attention.head_count_kv", heads);
  config["head_dim"] = head_dim;
  config["intermediate_size"] = OfAllLayers("feed_forward_length", {});
  config["max_position_embeddings"] = context;
  config["rms_norm_eps"] =
      reader_.Number(Key("attention.layer_norm_rms_epsilon"), 0, 1, std::nullopt);
  config["tie_word_embeddings"] = file_.FindTensor("output.weight") == nullptr;
  ReadRope(head_dim, config);
  ReadWindow(context, config);
  BATON_RETURN_IF_ERROR(reader_.status());

  const GgufTensor* embedding = file_.FindTensor("token_embd.weight");
  if (embedding == nullptr || embedding->shape.size() != 2) {
    return file_.Refuse(
        "tensor token_embd.weight, a matrix, is missing; take a whole language model");
  }
  config["vocab_size"] = embedding->shape[0];
  if (Has("vocab_size") && Int("vocab_size", {}) != embedding->shape[0]) {
    reader_.Fail(Key("vocab_size"),
                 absl::StrCat(embedding->shape[0], ", the rows of token_embd.weight"));
  }
  BATON_RETURN_IF_ERROR(reader_.status());
  const std::string_view dtype = embedding->type->name;
  if (dtype == "F32") config["dtype"] = "float32";
  if (dtype == "F16") config["dtype"] = "float16";
  if (dtype == "BF16") config["dtype"] = "bfloat16";
  return config;
}

// What each frequency of the rotation is divided by: the rule of Llama 3.1, worked out.
absl::Status ReadRopeFactors(const GgufFile& file, ModelConfig& config) {
  const GgufTensor* tensor = file.FindTensor(kGgufRopeFactors);
  if (tensor == nullptr) return absl::OkStatus();
  const std::vector<int64_t> expected = {config.head_dim / 2};
  bool good = tensor->type->name == "F32" && tensor->shape == expected &&
              config.rope.scaling == RopeConfig::Scaling::kNone;
  if (good) {
    config.rope.divisors.resize(static_cast<size_t>(config.head_dim / 2));
    std::memcpy(config.rope.divisors.data(), tensor->data.data(), tensor->data.size());
    good = std::ranges::all_of(config.rope.divisors,
                               [](float value) { return std::isfinite(value) && value > 0; });
  }
  if (good) return absl::OkStatus();
  return file.Refuse(absl::StrCat("tensor ", std::string(kGgufRopeFactors), " is of type ",
                                  std::string(tensor->type->name), "; expected ",
                                  config.head_dim / 2,
                                  " positive numbers of F32, and no other rule of scaling"));
}

// How the matrices are stored, where some of them are integers.
std::optional<QuantizationConfig> ReadQuantization(const GgufFile& file, int32_t layers) {
  std::set<std::string> kinds;
  for (const GgufTensor& tensor : file.tensors()) {
    if (tensor.type->integers()) kinds.emplace(tensor.type->name);
  }
  if (kinds.empty()) return std::nullopt;
  QuantizationConfig config = {.format = QuantizationConfig::Format::kGguf};
  for (const std::string& kind : kinds) {
    absl::StrAppend(&config.kinds, config.kinds.empty() ? "" : "+", kind);
  }
  const GgufTensor* output = file.FindTensor("output.weight");
  config.output = QuantizationConfig::Output::kFloats;
  if (output != nullptr && output->type->integers()) {
    config.output = QuantizationConfig::Output::kIntegers;
    config.output_bytes_per_weight = BytesPerWeight(output->type->form);
    config.gpu_output_bytes_per_weight = GpuBytesPerWeight(output->type->form);
  }
  // Matrices that are multiplied as one become integers of one kind.
  const std::vector<std::vector<const char*>> joined = {
      {"attn_q", "attn_k", "attn_v"}, {"attn_output"}, {"ffn_gate", "ffn_up"}, {"ffn_down"}};
  double bytes = 0;
  double gpu_bytes = 0;
  double weights = 0;
  for (int32_t layer = 0; layer < layers; ++layer) {
    for (const std::vector<const char*>& names : joined) {
      std::vector<const GgufTensorType*> types;
      double elements = 0;
      for (const char* name : names) {
        const GgufTensor* tensor =
            file.FindTensor(absl::StrCat("blk.", layer, ".", name, ".weight"));
        if (tensor == nullptr || tensor->shape.size() != 2) continue;
        types.push_back(tensor->type);
        elements += static_cast<double>(tensor->shape[0]) * static_cast<double>(tensor->shape[1]);
      }
      bytes += elements * BytesPerWeight(JoinForms(types));
      gpu_bytes += elements * GpuBytesPerWeight(JoinForms(types));
      weights += elements;
    }
  }
  config.bytes_per_weight = weights > 0 ? bytes / weights : 2;
  config.gpu_bytes_per_weight = weights > 0 ? gpu_bytes / weights : 2;
  return config;
}

}  // namespace

int32_t GgufHeads::CountIn(std::string_view tensor) const {
  const size_t suffix = tensor.rfind('.');
  const std::string_view module = tensor.substr(0, suffix);
  if (module.ends_with(".attn_q")) return heads;
  return module.ends_with(".attn_k") ? kv_heads : 0;
}

absl::StatusOr<GgufHeads> ReadGgufHeads(const GgufFile& file) {
  BATON_ASSIGN_OR_RETURN(const ModelConfig config, ReadGgufModelConfig(file));
  const bool llama = config.family == ModelFamily::kLlama || config.family == ModelFamily::kMistral;
  return GgufHeads{.heads = config.heads, .kv_heads = config.kv_heads, .alternate = llama};
}

absl::StatusOr<ModelConfig> ReadGgufModelConfig(const GgufFile& file) {
  const nlohmann::json metadata = file.Scalars();
  JsonReader reader(metadata, file.path());
  BATON_ASSIGN_OR_RETURN(const GgufFamily* family, FindGgufFamily(reader));
  BATON_ASSIGN_OR_RETURN(const nlohmann::json as_config,
                         ArchitectureReader(file, *family, metadata).AsConfig());
  BATON_ASSIGN_OR_RETURN(
      ModelConfig config,
      ParseModelConfig(as_config.dump(),
                       absl::StrCat(file.path(), ", its metadata as config.json")));
  const auto has = [&](const char* name) { return file.FindTensor(name) != nullptr; };
  config.qkv_bias = has("blk.0.attn_q.bias");
  config.o_bias = has("blk.0.attn_output.bias");
  config.mlp_bias = has("blk.0.ffn_gate.bias");
  BATON_RETURN_IF_ERROR(ReadRopeFactors(file, config));
  config.quantization = ReadQuantization(file, config.layers);
  return config;
}

absl::StatusOr<GenerationConfig> ReadGgufGenerationConfig(const GgufFile& file) {
  constexpr std::string_view kKeys[] = {"general.sampling.temp", "general.sampling.top_p",
                                        "general.sampling.min_p", "general.sampling.top_k",
                                        "general.sampling.penalty_repeat"};
  BATON_RETURN_IF_ERROR(file.CheckScalars(kKeys));
  const nlohmann::json metadata = file.Scalars();
  JsonReader reader(metadata, file.path());
  const auto optional = [&](const char* key, double min, double max) -> std::optional<float> {
    if (!reader.Has(key)) return std::nullopt;
    return static_cast<float>(reader.Number(key, min, max, {}));
  };
  GenerationConfig config;
  config.temperature = optional("general.sampling.temp", 0, 1e6);
  config.top_p = optional("general.sampling.top_p", 1e-9, 1);
  config.min_p = optional("general.sampling.min_p", 0, 1);
  config.repetition_penalty = optional("general.sampling.penalty_repeat", 1e-9, 1e6);
  if (reader.Has("general.sampling.top_k")) {  // 0 and less mean off
    config.top_k = static_cast<int32_t>(
        std::max<int64_t>(0, reader.Int("general.sampling.top_k", INT32_MIN, INT32_MAX, {})));
  }
  BATON_RETURN_IF_ERROR(reader.status());
  return config;
}

absl::StatusOr<ModelConfig> LoadGgufModelConfig(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(path));
  return ReadGgufModelConfig(*file);
}

absl::StatusOr<GenerationConfig> LoadGgufGenerationConfig(const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const auto file, GgufFile::Open(path));
  return ReadGgufGenerationConfig(*file);
}

}  // namespace baton
