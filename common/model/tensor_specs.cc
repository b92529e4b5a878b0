#include "common/model/tensor_specs.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/status.h"
#include "common/formats/gguf/gguf_types.h"
#include "common/model/quantize/quantized_parts.h"

namespace baton {
namespace {

void AddAttention(const ModelConfig& c, int32_t layer, std::vector<TensorSpec>& specs) {
  const auto add = [&](const char* name, std::vector<int64_t> shape) {
    specs.push_back({LayerTensor(layer, name), std::move(shape)});
  };
  add("input_layernorm.weight", {c.hidden});
  add("self_attn.q_proj.weight", {c.q_size(), c.hidden});
  add("self_attn.k_proj.weight", {c.kv_size(), c.hidden});
  add("self_attn.v_proj.weight", {c.kv_size(), c.hidden});
  if (c.qkv_bias) {
    add("self_attn.q_proj.bias", {c.q_size()});
    add("self_attn.k_proj.bias", {c.kv_size()});
    add("self_attn.v_proj.bias", {c.kv_size()});
  }
  if (c.qk_norm) {
    add("self_attn.q_norm.weight", {c.head_dim});
    add("self_attn.k_norm.weight", {c.head_dim});
  }
  add("self_attn.o_proj.weight", {c.hidden, c.q_size()});
  if (c.o_bias) add("self_attn.o_proj.bias", {c.hidden});
}

void AddMlp(const ModelConfig& c, int32_t layer, std::vector<TensorSpec>& specs) {
  const auto add = [&](const char* name, std::vector<int64_t> shape) {
    specs.push_back({LayerTensor(layer, name), std::move(shape)});
  };
  add("post_attention_layernorm.weight", {c.hidden});
  add("mlp.gate_proj.weight", {c.ffn, c.hidden});
  add("mlp.up_proj.weight", {c.ffn, c.hidden});
  add("mlp.down_proj.weight", {c.hidden, c.ffn});
  if (!c.mlp_bias) return;
  add("mlp.gate_proj.bias", {c.ffn});
  add("mlp.up_proj.bias", {c.ffn});
  add("mlp.down_proj.bias", {c.hidden});
}

// What some quantizers add to projections and means nothing where it is zeros: biases, and zero
// points of what is symmetric.
bool IsOfZeros(const StoredTensor& tensor) {
  for (const char* suffix : {"_proj.bias", "_proj.weight_zero_point", "_proj.input_zero_point",
                             "_attn.k_zero_point", "_attn.v_zero_point"}) {
    if (absl::EndsWith(tensor.name, suffix)) return true;
  }
  return false;
}

// Tensors that the Python library transformers writes, or leaves, beside the weights that it uses,
// and those of zeros that quantizers write.
bool IsHarmlessExtra(const ModelConfig& config, const StoredTensor& tensor) {
  const bool quantized = config.quantization.has_value();
  if (quantized && config.quantization->other_kv_scales && NamesKvScale(tensor.name)) return true;
  if (quantized && IsOfZeros(tensor)) {
    return std::all_of(tensor.data.begin(), tensor.data.end(),
                       [](std::byte byte) { return byte == std::byte{0}; });
  }
  return absl::EndsWith(tensor.name, "rotary_emb.inv_freq") ||
         (config.tied_embeddings && tensor.name == kOutputTensor);
}

// Whether the weight is stored as blocks of GGUF that can be read: any matrix may be.
bool IsGgufMatrix(const ModelConfig& config, const TensorSpec& spec, const StoredTensor& tensor) {
  return config.quantization.has_value() &&
         config.quantization->format == QuantizationConfig::Format::kGguf &&
         spec.shape.size() == 2 && FindGgufType(tensor.dtype) != nullptr;
}

// Compares a piece at a time and gives its pages back, so that large tensors take no memory.
bool HaveSameBytes(const StoredTensor& a, const StoredTensor& b) {
  constexpr size_t kPieceBytes = size_t{16} << 20;
  if (a.data.size() != b.data.size()) return false;
  for (size_t begin = 0; begin < a.data.size(); begin += kPieceBytes) {
    const size_t bytes = std::min(kPieceBytes, a.data.size() - begin);
    const auto of_a = a.data.subspan(begin, bytes);
    const auto of_b = b.data.subspan(begin, bytes);
    const bool same = std::memcmp(of_a.data(), of_b.data(), bytes) == 0;
    for (const auto piece : {of_a, of_b}) CheckpointFiles::DropPages(piece);
    if (!same) return false;
  }
  return true;
}

}  // namespace

int64_t TensorSpec::elements() const {
  int64_t count = 1;
  for (const int64_t size : shape) count *= size;
  return count;
}

std::string LayerTensor(int32_t layer, const std::string& name) {
  return absl::StrCat("model.layers.", layer, ".", name);
}

std::vector<TensorSpec> ExpectedTensors(const ModelConfig& config) {
  std::vector<TensorSpec> specs;
  specs.push_back({kEmbeddingTensor, {config.vocab, config.hidden}});
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    AddAttention(config, layer, specs);
    AddMlp(config, layer, specs);
  }
  specs.push_back({"model.norm.weight", {config.hidden}});
  if (!config.tied_embeddings) specs.push_back({kOutputTensor, {config.vocab, config.hidden}});
  return specs;
}

int64_t CountParameters(const ModelConfig& config) {
  int64_t count = 0;
  for (const TensorSpec& spec : ExpectedTensors(config)) count += spec.elements();
  return count;
}

std::string ShapeText(const std::vector<int64_t>& shape) {
  constexpr size_t kTold = 8;
  if (shape.size() <= kTold) return absl::StrCat("[", absl::StrJoin(shape, ", "), "]");
  return absl::StrCat("[", absl::StrJoin(shape.begin(), shape.begin() + kTold, ", "), ", …] of ",
                      shape.size(), " sizes");
}

absl::StatusOr<kernels::DType> TensorDType(const StoredTensor& tensor) {
  if (tensor.dtype == "F32") return kernels::DType::kF32;
  if (tensor.dtype == "BF16") return kernels::DType::kBF16;
  if (tensor.dtype == "F16") return kernels::DType::kF16;
  return absl::InvalidArgumentError(absl::StrCat("tensor ", tensor.name, " has type ", tensor.dtype,
                                                 "; expected F32, BF16 or F16"));
}

absl::Status CheckTensors(const ModelConfig& config, const CheckpointFiles& files) {
  const bool one_file = files.files().empty();
  const char* const advice =
      one_file ? "convert the model again" : "take config.json and weights of one model";
  absl::flat_hash_set<std::string> expected;
  for (const TensorSpec& spec : ExpectedTensors(config)) {
    const StoredTensor* tensor = files.Find(spec.name);
    const bool gguf = tensor != nullptr && IsGgufMatrix(config, spec, *tensor);
    if (!gguf && IsQuantized(config, files, spec.name)) {
      const QuantizationConfig& kind = config.quantization->KindOf(spec.name);
      BATON_RETURN_IF_ERROR(CheckQuantizedParts(kind, files, spec));
      const PartNames names = PartNames::Of(kind.format, spec.name);
      for (std::string& part : names.all()) expected.insert(std::move(part));
      continue;
    }
    const std::string shape = ShapeText(spec.shape);
    const bool floats = tensor != nullptr && TensorDType(*tensor).ok();
    if (!floats && config.quantization.has_value() && IsProjection(spec.name)) {
      const auto kind = config.quantization->FindKind(spec.name);
      if (!kind.ok()) return absl::InvalidArgumentError(kind.status().message());
    }
    if (tensor == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", files.NameInFile(spec.name), " ", shape,
                       " is missing from the checkpoint, which holds ", files.tensors().size(),
                       " tensors; complete the download, or ", advice));
    }
    if (!gguf) BATON_RETURN_IF_ERROR(TensorDType(*tensor).status());
    if (tensor->shape != spec.shape) {
      return absl::InvalidArgumentError(absl::StrCat(
          "tensor ", files.NameInFile(spec.name), " has shape ", ShapeText(tensor->shape), ", ",
          files.described_by(), " implies ", shape, "; ", advice));
    }
    expected.insert(spec.name);
  }
  if (config.quantization.has_value() && config.quantization->kv_scales) {
    BATON_RETURN_IF_ERROR(CheckKvScales(config, files));
    for (int32_t layer = 0; layer < config.layers; ++layer) {
      for (const char kind : {'k', 'v'}) expected.insert(FindKvScale(files, layer, kind)->name);
    }
  }
  for (const StoredTensor* tensor : files.tensors()) {
    if (expected.contains(tensor->name) || IsHarmlessExtra(config, *tensor)) continue;
    if (NamesKvScale(tensor->name)) {
      return absl::InvalidArgumentError(
          absl::StrCat("tensor ", files.NameInFile(tensor->name),
                       " is a scale of a KV cache, which ", files.described_by(),
                       " does not describe; expected a kv_cache_scheme of 8 bits of type "
                       "\"float\" in its quantization_config, or no such tensors"));
    }
    return absl::InvalidArgumentError(absl::StrCat(
        "tensor ", files.NameInFile(tensor->name), " has no place in a ", config.architecture,
        " of ", config.layers, " layers as ", files.described_by(), " describes it; ", advice));
  }
  return absl::OkStatus();
}

absl::Status CheckTiedOutput(const ModelConfig& config, const CheckpointFiles& files) {
  const StoredTensor* output = config.tied_embeddings ? files.Find(kOutputTensor) : nullptr;
  if (output == nullptr) return absl::OkStatus();
  const StoredTensor* embedding = files.Find(kEmbeddingTensor);
  if (embedding != nullptr && output->dtype == embedding->dtype &&
      output->shape == embedding->shape && HaveSameBytes(*output, *embedding)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor ", kOutputTensor, " is not the same as ", kEmbeddingTensor, ", though ",
      files.described_by(),
      " says by \"tie_word_embeddings\": true that both are one; expected equal tensors, or none "
      "of "
      "that name: set \"tie_word_embeddings\": false if the model has an output projection of its "
      "own"));
}

}  // namespace baton
