#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "common/formats/gguf/gguf_types.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/gguf_writer.h"

// The weights of a model as a list, which a fuzzer changes more easily than a file whose header
// counts its bytes. A line is "NAME TYPE SIZES", with the sizes as in "16x8" and "-" for none. More
// text is hexadecimal, and repeated makes the tensor's bytes. Without it they are all 3c, which is
// a number of moderate size in every type.
namespace baton::fuzz {

struct ListedTensor {
  std::string name;
  std::string type;
  std::vector<int64_t> shape;  // outermost first
  std::string bytes;           // of which there is one at least

  // How many it has; empty where a size is negative, or where a fuzzer would wait for so many.
  std::optional<int64_t> elements() const {
    constexpr int64_t kMost = 1 << 14;
    int64_t count = 1;
    for (const int64_t size : shape) {
      if (size < 0 || size > kMost || (count *= size) > kMost) return std::nullopt;
    }
    return count;
  }
  std::string Data(int64_t size) const {
    std::string data;
    while (std::ssize(data) < size) data += bytes;
    data.resize(static_cast<size_t>(size));
    return data;
  }
};

using ListedLine = std::vector<std::string>;  // its words

inline std::vector<ListedLine> LinesOf(std::string_view list) {
  constexpr size_t kMost = 200;
  std::vector<ListedLine> lines;
  for (const absl::string_view line :
       absl::StrSplit(absl::string_view(list.data(), list.size()), '\n', absl::SkipEmpty())) {
    lines.push_back(absl::StrSplit(line, ' ', absl::SkipEmpty()));
    if (lines.size() == kMost) break;
  }
  return lines;
}

inline std::string BytesOfHex(std::string_view hex) {
  std::string bytes;
  for (size_t i = 0; i + 1 < hex.size(); i += 2) {
    const std::string digits(hex.substr(i, 2));
    uint32_t byte = 0;
    if (absl::SimpleHexAtoi(digits, &byte)) bytes += static_cast<char>(byte);
  }
  return bytes.empty() ? "\x3c" : bytes;
}

// The tensor that a line of at least three words stands for.
inline ListedTensor TensorOf(const ListedLine& line) {
  ListedTensor tensor = {.name = line[0], .type = line[1]};
  for (const absl::string_view word : absl::StrSplit(line[2], 'x', absl::SkipEmpty())) {
    int64_t size = 0;
    if (absl::SimpleAtoi(word, &size)) tensor.shape.push_back(size);
  }
  tensor.bytes = BytesOfHex(line.size() > 3 ? line[3] : "");
  return tensor;
}

inline int64_t SafetensorsBytes(std::string_view type) {
  if (type == "I64" || type == "U64" || type == "F64") return 8;
  if (type.ends_with("32")) return 4;
  return type.ends_with("16") ? 2 : 1;
}

// The list as a safetensors file. Tensors of sizes that are none, or too many, have no bytes.
inline std::string SafetensorsOf(std::string_view list) {
  nlohmann::json header = nlohmann::json::object();
  std::string data;
  for (const ListedLine& line : LinesOf(list)) {
    if (line.size() < 3) continue;
    const ListedTensor tensor = TensorOf(line);
    const size_t begin = data.size();
    data += tensor.Data(tensor.elements().value_or(0) * SafetensorsBytes(tensor.type));
    header[tensor.name] = {
        {"dtype", tensor.type}, {"shape", tensor.shape}, {"data_offsets", {begin, data.size()}}};
  }
  // Names need not be UTF-8 for a fuzzer; in JSON they are.
  const std::string text = header.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  std::string file(8, '\0');
  for (size_t i = 0; i < 8; ++i) file[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
  return file + text + data;
}

// The list as a GGUF file. A line of two words is a key of the metadata and its value.
inline std::string GgufOf(std::string_view list) {
  GgufWriter writer;
  for (const ListedLine& line : LinesOf(list)) {
    uint32_t number = 0;
    float fraction = 0;
    if (line.size() == 2) {
      if (absl::SimpleAtoi(line[1], &number)) {
        writer.Add(line[0], number);
      } else if (absl::SimpleAtof(line[1], &fraction)) {
        writer.Add(line[0], fraction);
      } else {
        writer.Add(line[0], std::string_view(line[1]));
      }
    }
    if (line.size() < 3) continue;
    const ListedTensor tensor = TensorOf(line);
    const GgufTensorType* const type = FindGgufType(std::string_view(tensor.type));
    uint32_t id = 0;  // a type that cannot be read is known by its number alone
    if (type == nullptr && !absl::SimpleAtoi(tensor.type, &id)) continue;
    const int64_t elements = tensor.elements().value_or(0);
    const int64_t bytes = type != nullptr ? elements / type->block * type->bytes : elements;
    writer.AddTensor(tensor.name, type != nullptr ? type->id : id,
                     std::vector<uint64_t>(tensor.shape.begin(), tensor.shape.end()),
                     tensor.Data(bytes));
  }
  return writer.Bytes();
}

}  // namespace baton::fuzz
