#include "common/formats/quantization_config.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/formats/compressed_tensors_config.h"
#include "common/formats/json_reader.h"
#include "common/formats/quantization_fields.h"

namespace baton {
namespace {

using Format = QuantizationConfig::Format;

// The names of the description in a config.json, of which the first one that stands there holds.
// Checkpoints of compressed-tensors had the second one at first.
constexpr const char* kKeys[] = {"quantization_config", "compression_config"};
constexpr char kKnown[] =
    "\"compressed-tensors\" (integers of 4 or 8 bits, or e4m3), \"gptq\" (4 or 8 bits), \"awq\" (4 "
    "bits) or \"fp8\" (e4m3): take such a checkpoint, or one that is not quantized";
constexpr char kKvScheme[] =
    "none, or 8 bits of type \"float\", symmetric: take a checkpoint without; --kv-dtype says how "
    "the KV cache is stored";

// The form of a method's files, which tools name by `key`, by "format", or by both. The first of
// `known` holds where neither stands there.
std::string ReadNamedForm(JsonReader& reader, const char* key,
                          const std::vector<std::string>& known) {
  std::vector<std::string> quoted;
  for (const std::string& form : known) quoted.push_back(absl::StrCat("\"", form, "\""));
  std::string form;
  for (const char* name : {key, "format"}) {
    if (!reader.Has(name)) continue;
    const std::string found = absl::AsciiStrToLower(reader.String(name, ""));
    RefuseUnless(reader, name, std::ranges::find(known, found) != known.end(),
                 absl::StrJoin(quoted, " or "));
    RefuseUnless(reader, name, form.empty() || found == form,
                 absl::StrCat("\"", form, "\" as \"", key, "\" says"));
    form = found;
  }
  return form.empty() ? known.front() : form;
}

absl::StatusOr<QuantizationConfig> ReadGptq(JsonReader& reader) {
  QuantizationConfig config = {.format = Format::kGptq, .symmetric = false};
  config.bits = ReadBits(reader, "bits", /*only_four=*/false);
  config.group = ReadGroup(reader);
  const std::string form = ReadNamedForm(reader, "checkpoint_format", {"gptq", "gptq_v2"});
  // The first form of the format stores zero points less one.
  config.zero_added = form == "gptq" ? 1 : 0;
  // With static groups the order in which columns were quantized leaves groups as they are.
  const bool by_activation = reader.Bool("desc_act", false);
  const bool static_groups = reader.Bool("static_groups", false);
  config.groups_by_tensor = config.group > 0 && by_activation && !static_groups;
  RefuseUnless(reader, "is_marlin_format", !reader.Bool("is_marlin_format", false),
               "false: weights in GPTQ's own order");
  BATON_RETURN_IF_ERROR(reader.status());
  return config;
}

absl::StatusOr<QuantizationConfig> ReadAwq(JsonReader& reader) {
  QuantizationConfig config = {.format = Format::kAwq, .symmetric = false};
  config.bits = ReadBits(reader, "bits", /*only_four=*/true);
  config.group = ReadGroup(reader);
  ReadNamedForm(reader, "version", {"gemm"});
  RefuseUnless(reader, "zero_point", reader.Bool("zero_point", true), "true");
  BATON_RETURN_IF_ERROR(reader.status());
  return config;
}

// What scales the checkpoint has for a KV cache of e4m3.
void ReadKvScheme(JsonReader& reader, const nlohmann::json& object, QuantizationConfig& config) {
  const auto found = object.find("kv_cache_scheme");
  if (found == object.end() || found->is_null() || !reader.status().ok()) return;
  if (*found == "static") {  // of the method "fp8"
    config.kv_scales = true;
    return;
  }
  if (!found->is_object()) return reader.Fail("kv_cache_scheme", kKvScheme);
  JsonReader scheme(*found, "");
  const bool fits = scheme.Int("num_bits", 1, 64, std::nullopt) == 8 &&
                    scheme.String("type", "int") == "float" && scheme.Bool("symmetric", true);
  const bool by_layer =
      !scheme.Bool("dynamic", false) && scheme.String("strategy", "tensor") == "tensor";
  if (!fits || !scheme.status().ok()) return reader.Fail("kv_cache_scheme", kKvScheme);
  config.kv_scales = by_layer;
  config.other_kv_scales = !by_layer;
}

absl::StatusOr<QuantizationConfig> ReadFp8(JsonReader& reader, const nlohmann::json& object) {
  QuantizationConfig config = {.format = Format::kFp8, .asks_rounded_inputs = true};
  const std::string scheme = reader.String("activation_scheme", "dynamic");
  RefuseUnless(reader, "activation_scheme", scheme == "static" || scheme == "dynamic",
               "\"static\" or \"dynamic\"");
  config.static_inputs = scheme == "static";
  RefuseUnless(reader, "fmt", reader.String("fmt", "e4m3") == "e4m3", "\"e4m3\"");
  if (reader.Has("weight_block_size")) {
    config.format = Format::kFp8Blocks;
    ReadBlock(reader, "weight_block_size", object, config);
    RefuseUnless(reader, "activation_scheme", !config.static_inputs,
                 "\"dynamic\" with a weight_block_size");
  }
  BATON_RETURN_IF_ERROR(reader.status());
  return config;
}

// What the description says of the output projection, where its groups of modules say `by_groups`.
// What cannot be read is not refused here, for it is a hint on memory and no more.
QuantizationConfig::Output OutputOf(const nlohmann::json& object,
                                    QuantizationConfig::Output by_groups) {
  using Output = QuantizationConfig::Output;
  if (const auto said = object.find("lm_head"); said != object.end() && said->is_boolean()) {
    return said->get<bool>() ? Output::kIntegers : Output::kFloats;
  }
  const auto ignored = object.find("ignore");
  if (ignored == object.end() || !ignored->is_array()) return by_groups;
  // An expression may mean it, too.
  Output output = by_groups;
  for (const nlohmann::json& module : *ignored) {
    if (module == kOutputModule) return Output::kFloats;
    if (!module.is_string() || module.get_ref<const std::string&>().starts_with("re:")) {
      output = Output::kOpen;
    }
  }
  return output;
}

absl::StatusOr<QuantizationConfig> ReadMethod(JsonReader& quantization,
                                              const nlohmann::json& object) {
  const std::string method = quantization.String("quant_method", "");
  BATON_RETURN_IF_ERROR(quantization.status());
  if (method == "compressed-tensors") return ReadCompressedTensors(quantization);
  if (method == "gptq") return ReadGptq(quantization);
  if (method == "awq") return ReadAwq(quantization);
  if (method == "fp8") return ReadFp8(quantization, object);
  quantization.Fail("quant_method", kKnown);
  return quantization.status();
}

}  // namespace

bool SameKind(const QuantizationConfig& a, const QuantizationConfig& b) {
  return a.format == b.format && a.bits == b.bits && a.group == b.group &&
         a.symmetric == b.symmetric && a.groups_by_tensor == b.groups_by_tensor &&
         a.block_rows == b.block_rows && a.block_cols == b.block_cols &&
         a.asks_rounded_inputs == b.asks_rounded_inputs && a.static_inputs == b.static_inputs &&
         a.grouped_inputs == b.grouped_inputs;
}

absl::StatusOr<const QuantizationConfig*> QuantizationConfig::FindKind(
    std::string_view weight) const {
  if (modules.empty()) return this;
  const size_t suffix = weight.rfind('.');
  const std::string_view module = weight.substr(0, suffix);
  auto closest = ModuleTargets::Match::kNone;
  const QuantizationConfig* found = nullptr;
  bool several = false;
  for (const QuantizedModules& one : modules) {
    const ModuleTargets::Match match = one.targets.Matches(module);
    if (match == ModuleTargets::Match::kNone || match < closest) continue;
    several = match == closest && (several || !SameKind(*found, one.kind));
    if (match > closest) found = &one.kind;
    closest = match;
  }
  if (found == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "no group of modules in config.json has a target that names ", std::string(module),
        ", which is quantized; expected one, as config_groups has several kinds of integers"));
  }
  if (several) {
    return absl::InvalidArgumentError(
        absl::StrCat("several groups of modules in config.json have targets that name ",
                     std::string(module), ", with different kinds of integers; expected one"));
  }
  return found;
}

const QuantizationConfig& QuantizationConfig::KindOf(std::string_view weight) const {
  const auto kind = FindKind(weight);
  BATON_CHECK(kind.ok()) << kind.status();
  return **kind;
}

std::string QuantizationConfig::name() const {
  if (!modules.empty()) {
    std::vector<std::string> names;
    for (const QuantizedModules& one : modules) {
      std::string of_one = one.kind.name();
      if (std::ranges::find(names, of_one) == names.end()) names.push_back(std::move(of_one));
    }
    return absl::StrJoin(names, "+");
  }
  if (format == Format::kGguf) return kinds;
  if (fp8()) return block_rows > 0 ? absl::StrCat("fp8b", block_rows, "x", block_cols) : "fp8";
  return absl::StrCat("w", bits, group > 0 ? absl::StrCat("g", group) : "");
}

std::vector<std::string> QuantizationConfig::Remarks() const {
  std::vector<std::string> remarks;
  bool rounded = asks_rounded_inputs;
  bool fixed = static_inputs;
  for (const QuantizedModules& one : modules) {
    rounded = rounded || one.kind.asks_rounded_inputs;
    fixed = fixed || one.kind.static_inputs;
  }
  if (fp8()) {
    remarks.push_back(absl::StrCat(
        "projections of e4m3 become floats of --dtype while they are read",
        fp8_products() ? ", but on a GPU of compute capability 9, which multiplies by e4m3" : ""));
  } else if (rounded) {
    remarks.push_back(absl::StrCat(
        "inputs of products are kept at least as fine as the 8 bits that the checkpoint asks for",
        fixed ? "; its input_scale is not used" : ""));
  }
  if (kv_scales) {
    remarks.push_back(
        "the checkpoint's scales of keys and values are applied with --kv-dtype fp8, and ignored "
        "with any other type of the KV cache");
  }
  if (other_kv_scales) {
    remarks.push_back(
        "the checkpoint describes a KV cache of e4m3 with scales by head or of each step, which is "
        "not what --kv-dtype fp8 keeps: that is refused");
  }
  return remarks;
}

std::string MethodName(Format format) {
  if (format == Format::kGguf) return "GGUF";
  if (format == Format::kGptq) return "gptq";
  if (format == Format::kFp8 || format == Format::kFp8Blocks) return "fp8";
  return format == Format::kAwq ? "awq" : "compressed-tensors";
}

absl::StatusOr<std::optional<QuantizationConfig>> ReadQuantizationConfig(const nlohmann::json& json,
                                                                         const std::string& where) {
  JsonReader reader(json, where);
  const auto key = std::ranges::find_if(kKeys, [&](const char* name) { return reader.Has(name); });
  if (key == std::end(kKeys)) return std::nullopt;
  const nlohmann::json* object = reader.Object(*key);
  BATON_RETURN_IF_ERROR(reader.status());
  JsonReader quantization(*object, absl::StrCat(where, " ", *key));
  BATON_ASSIGN_OR_RETURN(QuantizationConfig config, ReadMethod(quantization, *object));
  ReadKvScheme(quantization, *object, config);
  BATON_RETURN_IF_ERROR(quantization.status());
  config.output = OutputOf(*object, config.output);
  return config;
}

}  // namespace baton
