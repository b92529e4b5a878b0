#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/gguf_writer.h"

namespace baton {

// How a model directory becomes a GGUF file, as llama.cpp's converter makes one.
struct GgufRecipe {
  // The type of a matrix by its name in the file: "" as it is stored, F32, BF16, Q8_0, Q4_0; of any
  // other type, blocks are random and have nothing in common with the directory.
  std::function<std::string(const std::string& name)> type_of;
  std::string pre = "gpt-2";  // of a byte-pair tokenizer
  // Is given the file before it is finished.
  std::function<void(GgufWriter& writer)> finish;
};

// Writes the model in `dir`, of any architecture that is served and with its tokenizer, to `path`.
absl::Status MakeGguf(const std::string& dir, const GgufRecipe& recipe, const std::string& path);

// Adds a tokenizer.json as metadata. `eos` is the text of the token that ends an answer, or empty.
void AddGgufTokenizer(const nlohmann::json& tokenizer, const std::string& pre, std::string_view eos,
                      GgufWriter* writer);

// `count` blocks of the type with random integers and scales of a size as weights have.
std::string RandomGgufBlocks(std::string_view type, size_t count, uint32_t seed);

}  // namespace baton
