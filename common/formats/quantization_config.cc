#include "common/formats/quantization_config.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/json_reader.h"

namespace baton {
namespace {

using Format = QuantizationConfig::Format;

constexpr char kKey[] = "quantization_config";
constexpr char kKnown[] =
    "\"compressed-tensors\" (integers of 4 or 8 bits, activations unquantized), \"gptq\" (4 or 8 "
    "bits) or \"awq\" (4 bits): take such a checkpoint, or one that is not quantized";
constexpr int64_t kLargestGroup = 1 << 20;  // no row has more columns

// Reads a number of bits.
int32_t ReadBits(JsonReader& reader, const char* key, bool only_four) {
  const int64_t bits = reader.Int(key, 1, 64, std::nullopt);
  if (reader.status().ok() && bits != 4 && (bits != 8 || only_four)) {
    reader.Fail(key, only_four ? "4" : "4 or 8");
  }
  return static_cast<int32_t>(bits);
}

// Reads the columns of a group, of which -1 means all.
int64_t ReadGroup(JsonReader& reader) {
  const int64_t group = reader.Int("group_size", -1, kLargestGroup, std::nullopt);
  if (group == -1) return 0;
  if (reader.status().ok() && (group == 0 || group % 16 != 0)) {
    reader.Fail("group_size", "-1 for one scale per row, or a multiple of 16");
  }
  return group;
}

void RefuseUnless(JsonReader& reader, const char* key, bool holds, const std::string& expected) {
  if (!holds) reader.Fail(key, expected);
}

absl::StatusOr<QuantizationConfig> ReadGptq(JsonReader& reader) {
  QuantizationConfig config = {.format = Format::kGptq, .symmetric = false};
  config.bits = ReadBits(reader, "bits", /*only_four=*/false);
  config.group = ReadGroup(reader);
  const std::string form = reader.String("checkpoint_format", "gptq");
  RefuseUnless(reader, "checkpoint_format", form == "gptq" || form == "gptq_v2",
               "\"gptq\" or \"gptq_v2\"");
  // The first form of the format stores zero points less one.
  config.zero_added = form == "gptq" ? 1 : 0;
  RefuseUnless(reader, "is_marlin_format", !reader.Bool("is_marlin_format", false),
               "false: weights in GPTQ's own order");
  BATON_RETURN_IF_ERROR(reader.status());
  return config;
}

absl::StatusOr<QuantizationConfig> ReadAwq(JsonReader& reader) {
  QuantizationConfig config = {.format = Format::kAwq, .symmetric = false};
  config.bits = ReadBits(reader, "bits", /*only_four=*/true);
  config.group = ReadGroup(reader);
  const std::string version = absl::AsciiStrToLower(reader.String("version", "gemm"));
  RefuseUnless(reader, "version", version == "gemm", "\"gemm\"");
  RefuseUnless(reader, "zero_point", reader.Bool("zero_point", true), "true");
  BATON_RETURN_IF_ERROR(reader.status());
  return config;
}

// Reads the arguments by which a group of modules was quantized.
absl::StatusOr<QuantizationConfig> ReadWeightArgs(const nlohmann::json& args, Format format,
                                                  const std::string& where) {
  JsonReader reader(args, where);
  QuantizationConfig config = {.format = format};
  config.bits = ReadBits(reader, "num_bits", /*only_four=*/false);
  RefuseUnless(reader, "type", reader.String("type", "int") == "int", "\"int\"");
  RefuseUnless(reader, "dynamic", !reader.Bool("dynamic", false), "false");
  config.symmetric = reader.Bool("symmetric", true);
  const std::string strategy =
      reader.String("strategy", reader.Has("group_size") ? "group" : "tensor");
  RefuseUnless(reader, "strategy", strategy == "group" || strategy == "channel",
               "\"group\" or \"channel\"");
  if (strategy == "group") config.group = ReadGroup(reader);
  BATON_RETURN_IF_ERROR(reader.status());
  return config;
}

bool Same(const QuantizationConfig& a, const QuantizationConfig& b) {
  return a.bits == b.bits && a.group == b.group && a.symmetric == b.symmetric;
}

absl::StatusOr<QuantizationConfig> ReadCompressedTensors(JsonReader& reader) {
  const std::string form = reader.String("format", "pack-quantized");
  RefuseUnless(reader, "format", form == "pack-quantized" || form == "int-quantized",
               "\"pack-quantized\" or \"int-quantized\"");
  RefuseUnless(reader, "kv_cache_scheme", !reader.Has("kv_cache_scheme"),
               "none: --kv-dtype says how the KV cache is stored");
  const nlohmann::json* groups = reader.Object("config_groups");
  BATON_RETURN_IF_ERROR(reader.status());
  const Format format = form == "pack-quantized" ? Format::kPackQuantized : Format::kIntQuantized;
  std::optional<QuantizationConfig> config;
  if (groups != nullptr) {
    for (const auto& [name, group] : groups->items()) {
      const std::string where = absl::StrCat(reader.where(), " config_groups ", name);
      if (!group.is_object()) {
        return absl::InvalidArgumentError(absl::StrCat(where, " is no object; expected one"));
      }
      JsonReader entry(group, where);
      RefuseUnless(entry, "input_activations", !entry.Has("input_activations"),
                   "none: only weights may be quantized (W4A16, W8A16)");
      RefuseUnless(entry, "output_activations", !entry.Has("output_activations"), "none");
      const nlohmann::json* args = entry.Object("weights");
      if (args == nullptr) entry.Fail("weights", "an object");
      BATON_RETURN_IF_ERROR(entry.status());
      BATON_ASSIGN_OR_RETURN(const QuantizationConfig read, ReadWeightArgs(*args, format, where));
      if (config.has_value() && !Same(*config, read)) {
        return absl::InvalidArgumentError(
            absl::StrCat(where, " quantizes to ", read.name(), ", another group of modules to ",
                         config->name(), "; expected one kind for all modules"));
      }
      config = read;
    }
  }
  if (!config.has_value()) reader.Fail("config_groups", "an object with a group of modules");
  BATON_RETURN_IF_ERROR(reader.status());
  return *config;
}

// Whether the description leaves it open that the output projection is quantized. What cannot be
// read is not refused here, for it is a hint on memory and no more.
bool OutputMayBeIntegers(const nlohmann::json& object) {
  if (const auto said = object.find("lm_head"); said != object.end() && said->is_boolean()) {
    return said->get<bool>();
  }
  const auto ignored = object.find("ignore");
  return ignored == object.end() || !ignored->is_array() ||
         std::find(ignored->begin(), ignored->end(), nlohmann::json("lm_head")) == ignored->end();
}

absl::StatusOr<QuantizationConfig> ReadMethod(JsonReader& quantization) {
  const std::string method = quantization.String("quant_method", "");
  BATON_RETURN_IF_ERROR(quantization.status());
  if (method == "compressed-tensors") return ReadCompressedTensors(quantization);
  if (method == "gptq") return ReadGptq(quantization);
  if (method == "awq") return ReadAwq(quantization);
  quantization.Fail("quant_method", kKnown);
  return quantization.status();
}

}  // namespace

std::string QuantizationConfig::name() const {
  if (format == Format::kGguf) return kinds;
  return absl::StrCat("w", bits, group > 0 ? absl::StrCat("g", group) : "");
}

std::string MethodName(Format format) {
  if (format == Format::kGguf) return "GGUF";
  if (format == Format::kGptq) return "gptq";
  return format == Format::kAwq ? "awq" : "compressed-tensors";
}

absl::StatusOr<std::optional<QuantizationConfig>> ReadQuantizationConfig(const nlohmann::json& json,
                                                                         const std::string& where) {
  JsonReader reader(json, where);
  const nlohmann::json* object = reader.Object(kKey);
  BATON_RETURN_IF_ERROR(reader.status());
  if (object == nullptr) return std::nullopt;
  JsonReader quantization(*object, absl::StrCat(where, " ", kKey));
  BATON_ASSIGN_OR_RETURN(QuantizationConfig config, ReadMethod(quantization));
  config.output_may_be_integers = OutputMayBeIntegers(*object);
  return config;
}

}  // namespace baton
