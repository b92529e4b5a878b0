#include "tests/fakes/gguf_maker.h"

#include <algorithm>
#include <cmath>
#include <fstream>
#include <numbers>
#include <random>
#include <set>
#include <sstream>
#include <vector>

#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/gguf/gguf_names.h"
#include "common/formats/gguf/gguf_types.h"
#include "common/formats/json_reader.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "kernels/float_convert.h"

namespace baton {
namespace {

using nlohmann::json;

std::string BytesOf(uint16_t half) {
  return {static_cast<char>(half & 0xff), static_cast<char>(half >> 8)};
}

std::vector<float> FloatsOf(const StoredTensor& tensor) {
  const size_t step = tensor.dtype == "F32" ? 4 : 2;
  std::vector<float> values(tensor.data.size() / step);
  for (size_t i = 0; i < values.size(); ++i) {
    if (step == 4) {
      std::memcpy(&values[i], tensor.data.data() + i * 4, 4);
      continue;
    }
    uint16_t bits = 0;
    std::memcpy(&bits, tensor.data.data() + i * 2, 2);
    values[i] = tensor.dtype == "BF16" ? kernels::FloatFromBf16(bits) : kernels::FloatFromF16(bits);
  }
  return values;
}

// Blocks of 32: an fp16 scale, then integers of eight or four bits.
std::string RoundToBlocks(std::span<const float> values, int bits) {
  std::string blocks;
  const float most = bits == 8 ? 127 : 7;
  for (size_t begin = 0; begin < values.size(); begin += 32) {
    float largest = 0;
    for (size_t i = 0; i < 32; ++i) largest = std::max(largest, std::abs(values[begin + i]));
    const uint16_t half = kernels::F16FromFloat(largest / most);
    const float scale = kernels::FloatFromF16(half);
    std::vector<int> codes(32);
    for (size_t i = 0; i < 32; ++i) {
      const float exact = scale > 0 ? values[begin + i] / scale : 0;
      codes[i] = static_cast<int>(std::lround(std::clamp(exact, -most, most)));
    }
    blocks += BytesOf(half);
    for (size_t i = 0; i < (bits == 8 ? 32U : 16U); ++i) {
      const int low = bits == 8 ? codes[i] : (codes[i] + 8) | (codes[i + 16] + 8) << 4;
      blocks += static_cast<char>(low);
    }
  }
  return blocks;
}

std::string Encode(const std::vector<float>& values, const std::string& type, uint32_t seed) {
  if (type == "Q8_0" || type == "Q4_0") return RoundToBlocks(values, type == "Q8_0" ? 8 : 4);
  std::string bytes;
  if (type == "F32") {
    bytes.assign(reinterpret_cast<const char*>(values.data()), values.size() * 4);
  } else if (type == "BF16") {
    for (const float value : values) bytes += BytesOf(kernels::Bf16FromFloat(value));
  } else if (type == "F16") {
    for (const float value : values) bytes += BytesOf(kernels::F16FromFloat(value));
  } else {
    const auto block = static_cast<size_t>(FindGgufType(type)->block);
    bytes = RandomGgufBlocks(type, values.size() / block, seed);
  }
  return bytes;
}

// The rows of each head, the two halves alternating.
std::vector<float> Alternated(const std::vector<float>& values, size_t heads, size_t rows) {
  const size_t cols = values.size() / rows;
  const size_t half = rows / heads / 2;
  std::vector<float> result;
  result.reserve(values.size());
  for (size_t row = 0; row < rows; ++row) {
    const size_t head = row / (2 * half);
    const size_t inside = row % (2 * half);
    const size_t from = head * 2 * half + inside % 2 * half + inside / 2;
    result.insert(result.end(), values.begin() + static_cast<std::ptrdiff_t>(from * cols),
                  values.begin() + static_cast<std::ptrdiff_t>((from + 1) * cols));
  }
  return result;
}

// What llama.cpp's converter makes of the rule of Llama 3.1.
std::string RopeFactors(const ModelConfig& config) {
  std::vector<float> factors;
  const RopeConfig& rope = config.rope;
  const auto original = static_cast<double>(rope.original_positions);
  for (int32_t i = 0; i < config.head_dim / 2; ++i) {
    const double wave = 2 * std::numbers::pi * std::pow(rope.theta, 2.0 * i / config.head_dim);
    double factor = 1;
    if (wave > original / rope.low_freq_factor) {
      factor = rope.factor;
    } else if (wave >= original / rope.high_freq_factor) {
      const double smooth =
          (original / wave - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      factor = 1 / ((1 - smooth) / rope.factor + smooth);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return {reinterpret_cast<const char*>(factors.data()), factors.size() * 4};
}

void AddConfig(const ModelConfig& config, GgufWriter* writer) {
  const bool llama = config.family == ModelFamily::kLlama || config.family == ModelFamily::kMistral;
  const std::string arch = llama                                  ? "llama"
                           : config.family == ModelFamily::kQwen2 ? "qwen2"
                                                                  : "qwen3";
  const auto add = [&](const char* key, auto value) { writer->Add(arch + "." + key, value); };
  const auto count = [](auto value) { return static_cast<uint32_t>(value); };
  writer->Add("general.architecture", arch);
  add("block_count", count(config.layers));
  add("context_length", count(config.max_positions));
  add("embedding_length", count(config.hidden));
  add("feed_forward_length", count(config.ffn));
  add("attention.head_count", count(config.heads));
  add("attention.head_count_kv", count(config.kv_heads));
  add("attention.key_length", count(config.head_dim));
  add("attention.value_length", count(config.head_dim));
  add("rope.dimension_count", count(config.head_dim));
  add("attention.layer_norm_rms_epsilon", static_cast<float>(config.rms_eps));
  add("rope.freq_base", static_cast<float>(config.rope.theta));
  add("vocab_size", count(config.vocab));
  if (config.windows[0] != 0) add("attention.sliding_window", count(config.windows[0]));
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

void AddText(const std::string& dir, const std::string& pre, GgufWriter* writer) {
  const json config = json::parse(ReadText(dir + "/tokenizer_config.json"));
  const std::string text = ReadText(dir + "/tokenizer.json");
  AddGgufTokenizer(json::parse(text), pre, config.value("eos_token", ""), writer);
  std::string chat = ReadText(dir + "/chat_template.jinja");
  if (chat.empty()) chat = config.value("chat_template", "");
  if (!chat.empty()) writer->Add("tokenizer.chat_template", chat);
}

}  // namespace

void AddGgufTokenizer(const json& tokenizer, const std::string& pre, std::string_view eos,
                      GgufWriter* writer) {
  const json& model = tokenizer["model"];
  const bool pieces = model["byte_fallback"];
  size_t count = 0;
  for (const auto& [token, id] : model["vocab"].items()) {
    count = std::max(count, id.get<size_t>() + 1);
  }
  for (const json& added : tokenizer["added_tokens"]) {
    count = std::max(count, added["id"].get<size_t>() + 1);
  }
  std::vector<std::string> tokens(count);
  for (size_t i = 0; i < count; ++i) tokens[i] = "[PAD" + std::to_string(i) + "]";
  std::vector<int32_t> types(count, 5);
  for (const auto& [token, id] : model["vocab"].items()) {
    tokens[id.get<size_t>()] = token;
    types[id.get<size_t>()] = pieces && token.starts_with("<0x") ? 6 : 1;
  }
  for (const json& added : tokenizer["added_tokens"]) {
    const size_t id = added["id"].get<size_t>();
    tokens[id] = added["content"];
    types[id] = added["special"] ? 3 : 4;
    if (!eos.empty() && tokens[id] == eos) {
      writer->Add("tokenizer.ggml.eos_token_id", static_cast<uint32_t>(id));
    }
    if (tokens[id] == "<unk>") types[id] = 2;
    if (tokens[id] == "<unk>") {
      writer->Add("tokenizer.ggml.unknown_token_id", static_cast<uint32_t>(id));
    }
  }
  writer->Add("tokenizer.ggml.model", pieces ? "llama" : "gpt2");
  writer->Add("tokenizer.ggml.tokens", tokens);
  writer->Add("tokenizer.ggml.token_type", types);
  const json& post = tokenizer["post_processor"];
  const bool frames = post.is_object() && post["type"] == "TemplateProcessing";
  writer->Add("tokenizer.ggml.add_bos_token", frames);
  if (frames) {
    const json& first = post["single"][0]["SpecialToken"]["id"];
    writer->Add("tokenizer.ggml.bos_token_id",
                post["special_tokens"][first.get<std::string>()]["ids"][0].get<uint32_t>());
  }
  std::vector<std::string> merges;
  std::vector<float> scores(count, 0);
  for (const json& merge : model["merges"]) {
    const std::string left = merge.is_string() ? "" : merge[0].get<std::string>();
    merges.push_back(merge.is_string() ? merge.get<std::string>()
                                       : left + " " + merge[1].get<std::string>());
    std::string joined = merges.back();
    joined.erase(joined.find(' ', 1), 1);
    const auto found = model["vocab"].find(joined);
    if (found == model["vocab"].end()) continue;
    float& score = scores[found->get<size_t>()];
    if (score == 0) score = -static_cast<float>(merges.size());
  }
  if (!pieces) {
    writer->Add("tokenizer.ggml.pre", pre);
    writer->Add("tokenizer.ggml.merges", merges);
    return;
  }
  // Single characters come after all that are joined.
  for (float& score : scores) {
    if (score == 0) score = -static_cast<float>(merges.size() + 1);
  }
  writer->Add("tokenizer.ggml.scores", scores);
}

std::string RandomGgufBlocks(std::string_view type, size_t count, uint32_t seed) {
  const GgufTensorType* found = FindGgufType(type);
  BATON_CHECK(found != nullptr && found->integers()) << std::string(type);
  std::mt19937 random(seed);
  std::string bytes(count * static_cast<size_t>(found->bytes), '\0');
  for (char& byte : bytes) byte = static_cast<char>(random());
  const auto put = [&](size_t at, float value) {
    const std::string half = BytesOf(kernels::F16FromFloat(value));
    std::copy(half.begin(), half.end(), bytes.begin() + static_cast<std::ptrdiff_t>(at));
  };
  for (size_t block = 0; block < count; ++block) {
    const size_t at = block * static_cast<size_t>(found->bytes);
    const float unit = static_cast<float>(1 + random() % 999) / 1000.0f;
    if (type == "Q6_K") {
      put(at + 208, unit * 3e-5f);  // times a scale of eight bits and an integer of six
      continue;
    }
    const bool super = found->block == 256;
    const float most = super ? 63.0f : 1.0f;
    const float range = found->form.bits == 4 ? 8 : type == "Q8_0" ? 128 : 16;
    put(at, unit * 0.1f / most / range);
    if (!found->form.minimums) continue;
    put(at + 2, (super ? 1.0f : -1.0f) * unit * 0.1f / most);
  }
  return bytes;
}

absl::Status MakeGguf(const std::string& dir, const GgufRecipe& recipe, const std::string& path) {
  BATON_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(dir));
  BATON_ASSIGN_OR_RETURN(const auto files, CheckpointFiles::Open(dir));
  GgufWriter writer;
  AddConfig(config, &writer);
  AddText(dir, recipe.pre, &writer);
  const bool llama = config.family == ModelFamily::kLlama || config.family == ModelFamily::kMistral;
  uint32_t seed = 1;
  for (const StoredTensor* tensor : files->tensors()) {
    if (config.tied_embeddings && tensor->name == "lm_head.weight") continue;
    const std::string name = GgufNameOfTensor(tensor->name);
    const bool matrix = tensor->shape.size() == 2;
    std::string type = matrix && recipe.type_of ? recipe.type_of(name) : "";
    if (type.empty()) type = matrix ? tensor->dtype : "F32";
    std::vector<float> values = FloatsOf(*tensor);
    const bool query = name.find(".attn_q.") != name.npos;
    if (llama && (query || name.find(".attn_k.") != name.npos)) {
      const auto heads = static_cast<size_t>(query ? config.heads : config.kv_heads);
      values = Alternated(values, heads, static_cast<size_t>(tensor->shape[0]));
    }
    writer.AddTensor(name, FindGgufType(type)->id, {tensor->shape.begin(), tensor->shape.end()},
                     Encode(values, type, seed++));
  }
  if (config.rope.scaling == RopeConfig::Scaling::kLlama3) {
    writer.AddTensor(std::string(kGgufRopeFactors), 0, {static_cast<uint64_t>(config.head_dim / 2)},
                     RopeFactors(config));
  }
  if (recipe.finish) recipe.finish(writer);
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out << writer.Bytes();
  return out.flush().good() ? absl::OkStatus() : absl::UnavailableError(path);
}

}  // namespace baton
