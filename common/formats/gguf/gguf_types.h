#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace baton {

// The integers that a matrix is kept as in memory: value = (integer - zero point) * scale -
// minimum.
struct GgufForm {
  int bits = 0;             // 4 or 8; 0: it is kept as floats
  int64_t group = 0;        // columns that share a scale and a minimum
  bool minimums = false;    // integers have no sign, and there are minimums
  int64_t scale_bytes = 0;  // of a scale or minimum; 2: fp16 holds them, 1: integers times units
  int64_t unit = 0;         // columns whose integers share a unit in fp16
};

// A type of the elements of a GGUF tensor. They come in blocks, whose bytes also hold what scales
// them. A block of a float is one element.
struct GgufTensorType {
  uint32_t id = 0;
  std::string_view name;
  int64_t block = 0;  // elements of a block; 0: of a type that is known by name only
  int64_t bytes = 0;  // of a block

  GgufForm form;

  bool readable() const { return block > 0; }
  bool integers() const { return form.bits > 0; }
};

// Null for an id that no GGUF file had when this was written.
const GgufTensorType* FindGgufType(uint32_t id);
// Null for other names than those of readable types.
const GgufTensorType* FindGgufType(std::string_view name);

// The readable types, for messages: "F32, F16, …".
std::string ReadableGgufTypes();

// The form that holds the elements of all these types exactly, for matrices that are multiplied as
// one.
GgufForm JoinForms(std::span<const GgufTensorType* const> types);
// What an element takes in a CPU's memory; floats count as 16 bits. GPUs keep minimums, and scales
// that have units, in fp32.
double BytesPerWeight(const GgufForm& form);
double GpuBytesPerWeight(const GgufForm& form);

}  // namespace baton
