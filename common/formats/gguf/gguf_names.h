#pragma once

#include <string>
#include <string_view>

namespace baton {

// The tensor by whose values the frequencies of the rotary embedding are divided.
inline constexpr std::string_view kGgufRopeFactors = "rope_freqs.weight";

// The name that a tensor of a GGUF file has in safetensors: that of "blk.3.attn_q.weight" is
// "model.layers.3.self_attn.q_proj.weight". A name without a counterpart stays.
std::string NameOfGgufTensor(std::string_view name);
// The other way.
std::string GgufNameOfTensor(std::string_view name);

}  // namespace baton
