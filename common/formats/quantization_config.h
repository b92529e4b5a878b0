#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "common/formats/module_targets.h"
#include "nlohmann/json.hpp"

namespace baton {

// The name of the output projection among the modules of a checkpoint.
inline constexpr char kOutputModule[] = "lm_head";

struct QuantizedModules;

// How the projections of a checkpoint are stored, where they are integers of a few bits with a
// scale for each group of columns, or numbers of e4m3 with a scale. Where a checkpoint has several
// kinds of integers, this is one of them, and `modules` has each.
struct QuantizationConfig {
  // The tensors that stand for a projection, and the order of the integers in them.
  enum class Format {
    kPackQuantized,  // compressed-tensors: integers packed into words along a row
    kIntQuantized,   // compressed-tensors: a byte for each
    kGptq,           // packed along a column
    kAwq,            // packed along a row of the transposed weight, in an order of their own
    kGguf,           // blocks of a GGUF file, which may be of several kinds
    // Numbers of e4m3 in place of integers:
    kFloatQuantized,  // compressed-tensors
    kFp8,             // the method "fp8", with a scale for a whole weight or a row
    kFp8Blocks,       // the method "fp8", with a scale for each block
  };
  Format format = Format::kPackQuantized;
  int32_t bits = 8;        // 4 or 8
  int64_t group = 0;       // columns that share a scale; 0: all of a row do
  bool symmetric = true;   // there are no zero points
  int32_t zero_added = 0;  // what is added to a stored zero point
  // Whether columns of one group are not neighbours, so that a tensor must tell their groups.
  bool groups_by_tensor = false;
  // Whether an output projection of its own is integers, too, by the description of the checkpoint.
  // Only its tensors say for sure where that leaves it open.
  enum class Output { kFloats, kOpen, kIntegers };
  Output output = Output::kOpen;

  // Of e4m3 alone: the rows and columns of a block that has one scale. 0 where a scale is that of a
  // row or of a whole weight, which the shape of the stored scales tells.
  int64_t block_rows = 0;
  int64_t block_cols = 0;

  // Whether the checkpoint asks for products whose inputs are rounded to 8 bits, and whether it
  // brings the scales of these.
  bool asks_rounded_inputs = false;
  bool static_inputs = false;
  // They are to have a scale for each group of columns: finer than one for a row.
  bool grouped_inputs = false;
  // Whether it brings scales for a KV cache of e4m3, two for each layer.
  bool kv_scales = false;
  // Whether it describes such a cache otherwise: by head, or with scales that are found on the way.
  bool other_kv_scales = false;

  // Of kGguf alone, which has them in place of bits, group and symmetric:
  std::string kinds;  // of all its matrices, as in "Q4_K+Q6_K"
  // That an element of a layer's projections takes in memory, and in a GPU's.
  double bytes_per_weight = 0;
  double gpu_bytes_per_weight = 0;
  // The same of an output projection of integers.
  double output_bytes_per_weight = 0;
  double gpu_output_bytes_per_weight = 0;

  // Empty where all modules are of one kind.
  std::vector<QuantizedModules> modules;

  // The kind of a quantized projection, as in "lm_head.weight": this one, or that of the modules
  // whose targets name it most closely. NOT_FOUND where none do, INVALID_ARGUMENT where several of
  // different kinds name it as closely.
  absl::StatusOr<const QuantizationConfig*> FindKind(std::string_view weight) const;
  // The same of a weight for which there is one.
  const QuantizationConfig& KindOf(std::string_view weight) const;

  bool fp8() const {
    return format == Format::kFloatQuantized || format == Format::kFp8 ||
           format == Format::kFp8Blocks;
  }
  // Whether it is e4m3 with scales that products of rows can apply.
  bool fp8_by_row() const { return fp8() && block_rows == 0; }
  // Whether such products, which round inputs to e4m3 with a scale for each row or for all, are as
  // fine as the checkpoint asks.
  bool fp8_products() const { return fp8_by_row() && asks_rounded_inputs && !grouped_inputs; }
  // As in "w4g128", and "w8" where a row has one scale; "w4g32+w8g32" of several kinds; "fp8", or
  // "fp8b128x128" with blocks; the kinds of a GGUF file.
  std::string name() const;
  // What is served otherwise than the checkpoint describes it, a sentence each, for people.
  std::vector<std::string> Remarks() const;
};

// Modules of one kind of a checkpoint that has several.
struct QuantizedModules {
  ModuleTargets targets;
  QuantizationConfig kind;
};

// Whether weights of both are integers, or numbers, that are scaled and stored in one way, and ask
// for the same inputs.
bool SameKind(const QuantizationConfig& a, const QuantizationConfig& b);

// As quant_method spells it: "compressed-tensors", "gptq", "awq" or "fp8"; or "GGUF".
std::string MethodName(QuantizationConfig::Format format);

// Reads "quantization_config" of `json`, or "compression_config" where there is no such, as the key
// was called at first. `json` is a config.json that `where` names in messages. Empty where there is
// neither. INVALID_ARGUMENT, saying what is known, for any other method, number of bits, group or
// format.
absl::StatusOr<std::optional<QuantizationConfig>> ReadQuantizationConfig(const nlohmann::json& json,
                                                                         const std::string& where);

}  // namespace baton
