#pragma once

#include <cstdint>
#include <string>

#include "common/formats/json_reader.h"
#include "common/formats/quantization_config.h"
#include "nlohmann/json.hpp"

namespace baton {

// Fields that several methods of quantization have. What is refused is the reader's status.

// Fails with what was expected of `key` unless that holds.
void RefuseUnless(JsonReader& reader, const char* key, bool holds, const std::string& expected);
// A number of bits.
int32_t ReadBits(JsonReader& reader, const char* key, bool only_four);
// The columns of a group, which "group_size" tells; 0 for all, of which -1 stands there.
int64_t ReadGroup(JsonReader& reader);
// The sides of a block that has one scale: a list of two in `object`, which `reader` reads.
void ReadBlock(JsonReader& reader, const char* key, const nlohmann::json& object,
               QuantizationConfig& config);

}  // namespace baton
