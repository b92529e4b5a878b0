#include "common/formats/gguf/gguf_names.h"

#include <algorithm>

namespace baton {
namespace {

struct NamePair {
  std::string_view gguf;
  std::string_view safetensors;
};

constexpr NamePair kWhole[] = {{"token_embd.weight", "model.embed_tokens.weight"},
                               {"output_norm.weight", "model.norm.weight"},
                               {"output.weight", "lm_head.weight"}};
// Between the layer's number and ".weight" or ".bias".
constexpr NamePair kOfLayer[] = {
    {"attn_norm", "input_layernorm"},    {"attn_q", "self_attn.q_proj"},
    {"attn_k", "self_attn.k_proj"},      {"attn_v", "self_attn.v_proj"},
    {"attn_output", "self_attn.o_proj"}, {"attn_q_norm", "self_attn.q_norm"},
    {"attn_k_norm", "self_attn.k_norm"}, {"ffn_norm", "post_attention_layernorm"},
    {"ffn_gate", "mlp.gate_proj"},       {"ffn_up", "mlp.up_proj"},
    {"ffn_down", "mlp.down_proj"}};
constexpr std::string_view kGgufLayer = "blk.";
constexpr std::string_view kLayer = "model.layers.";

// Exchanges the names of one side for those of the other.
std::string Exchange(std::string_view name, std::string_view NamePair::*from,
                     std::string_view NamePair::*to, std::string_view from_layer,
                     std::string_view to_layer) {
  for (const NamePair& pair : kWhole) {
    if (pair.*from == name) return std::string(pair.*to);
  }
  if (!name.starts_with(from_layer)) return std::string(name);
  const std::string_view rest = name.substr(from_layer.size());
  const size_t dot = rest.find('.');
  const size_t suffix = rest.rfind('.');
  if (dot == rest.npos || suffix <= dot) return std::string(name);
  const std::string_view part = rest.substr(dot + 1, suffix - dot - 1);
  const auto* pair = std::ranges::find(kOfLayer, part, from);
  if (pair == std::end(kOfLayer)) return std::string(name);
  std::string result(to_layer);
  result += rest.substr(0, dot + 1);
  result += pair->*to;
  result += rest.substr(suffix);
  return result;
}

}  // namespace

std::string NameOfGgufTensor(std::string_view name) {
  return Exchange(name, &NamePair::gguf, &NamePair::safetensors, kGgufLayer, kLayer);
}

std::string GgufNameOfTensor(std::string_view name) {
  return Exchange(name, &NamePair::safetensors, &NamePair::gguf, kLayer, kGgufLayer);
}

}  // namespace baton
