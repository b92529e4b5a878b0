#include "common/formats/compressed_tensors_config.h"

#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/quantization_fields.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Format = QuantizationConfig::Format;

// Whether columns are in groups of their own, by "actorder", which may also be a boolean.
bool ReadActOrder(JsonReader& reader, const nlohmann::json& args) {
  const auto found = args.find("actorder");
  if (found == args.end() || found->is_null()) return false;
  if (found->is_boolean()) return found->get<bool>();
  const std::string order = absl::AsciiStrToLower(reader.String("actorder", ""));
  if (order == "group" || order == "dynamic") return true;
  RefuseUnless(reader, "actorder", order == "weight" || order == "static",
               "\"group\", \"weight\" or none");
  return false;
}

// Reads the arguments by which a group of modules was quantized to integers.
void ReadIntegerArgs(JsonReader& reader, const nlohmann::json& args, QuantizationConfig& config) {
  config.bits = ReadBits(reader, "num_bits", /*only_four=*/false);
  RefuseUnless(reader, "type", reader.String("type", "int") == "int", "\"int\"");
  config.symmetric = reader.Bool("symmetric", true);
  const std::string strategy =
      reader.String("strategy", reader.Has("group_size") ? "group" : "tensor");
  RefuseUnless(reader, "strategy", strategy == "group" || strategy == "channel",
               "\"group\" or \"channel\"");
  if (strategy == "group") config.group = ReadGroup(reader);
  config.groups_by_tensor = ReadActOrder(reader, args) && config.group > 0;
}

// Likewise to e4m3.
void ReadFloatArgs(JsonReader& reader, const nlohmann::json& args, QuantizationConfig& config) {
  RefuseUnless(reader, "num_bits", reader.Int("num_bits", 1, 64, std::nullopt) == 8, "8");
  RefuseUnless(reader, "type", reader.String("type", "int") == "float", "\"float\"");
  RefuseUnless(reader, "symmetric", reader.Bool("symmetric", true), "true");
  const std::string strategy = reader.String("strategy", "tensor");
  RefuseUnless(reader, "strategy",
               strategy == "tensor" || strategy == "channel" || strategy == "block",
               "\"tensor\", \"channel\" or \"block\"");
  if (strategy == "block") ReadBlock(reader, "block_structure", args, config);
}

absl::StatusOr<QuantizationConfig> ReadWeightArgs(const nlohmann::json& args, Format format,
                                                  const std::string& where) {
  JsonReader reader(args, where);
  QuantizationConfig config = {.format = format};
  RefuseUnless(reader, "dynamic", !reader.Bool("dynamic", false), "false");
  if (config.fp8()) {
    ReadFloatArgs(reader, args, config);
  } else {
    ReadIntegerArgs(reader, args, config);
  }
  BATON_RETURN_IF_ERROR(reader.status());
  return config;
}

// Reads how the inputs of products are to be rounded: to 8 bits of the weights' type, around 0.
absl::Status ReadInputArgs(const nlohmann::json& args, const std::string& where,
                           QuantizationConfig& config) {
  JsonReader reader(args, absl::StrCat(where, " input_activations"));
  const char* const type = config.fp8() ? "float" : "int";
  RefuseUnless(reader, "num_bits", reader.Int("num_bits", 1, 64, std::nullopt) == 8, "8");
  RefuseUnless(reader, "type", reader.String("type", "int") == type,
               absl::StrCat("\"", type, "\""));
  RefuseUnless(reader, "symmetric", reader.Bool("symmetric", true),
               "true: products have no zero points of inputs");
  config.asks_rounded_inputs = true;
  config.static_inputs = !reader.Bool("dynamic", false);
  const std::string strategy = reader.String("strategy", config.static_inputs ? "tensor" : "token");
  config.grouped_inputs = strategy == "group";
  if (config.static_inputs) {
    RefuseUnless(reader, "strategy", strategy == "tensor",
                 "\"tensor\", or \"token\" where \"dynamic\" is true");
  } else {
    RefuseUnless(reader, "strategy",
                 strategy == "token" || strategy == "tensor" || strategy == "group",
                 "\"token\", \"tensor\" or \"group\"");
  }
  return reader.status();
}

bool Same(const QuantizationConfig& a, const QuantizationConfig& b) {
  return a.bits == b.bits && a.group == b.group && a.symmetric == b.symmetric &&
         a.groups_by_tensor == b.groups_by_tensor && a.block_rows == b.block_rows &&
         a.block_cols == b.block_cols && a.asks_rounded_inputs == b.asks_rounded_inputs &&
         a.static_inputs == b.static_inputs && a.grouped_inputs == b.grouped_inputs;
}

// Refuses what changes the numbers beside the rounding itself: inputs that are to be rotated, and
// weights of which only some are stored. Tools write empty objects where there is none of it.
void RefuseTransforms(JsonReader& reader) {
  const nlohmann::json* const transform = reader.Object("transform_config");
  if (transform != nullptr) {
    const auto groups = transform->find("config_groups");
    const bool none = groups == transform->end() ? transform->empty() : groups->empty();
    RefuseUnless(reader, "transform_config", none, "none: take a checkpoint without transforms");
  }
  const nlohmann::json* const sparsity = reader.Object("sparsity_config");
  if (sparsity != nullptr) {
    const nlohmann::json format = sparsity->value("format", nlohmann::json("dense"));
    RefuseUnless(reader, "sparsity_config", format == "dense",
                 "none, or one with the format \"dense\": take a checkpoint that is not sparse");
  }
}

// Reads one of the groups of modules, each of which may name its format again.
absl::StatusOr<QuantizationConfig> ReadGroupOfModules(const nlohmann::json& group, Format format,
                                                      const std::string& form,
                                                      const std::string& where) {
  if (!group.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(where, " is no object; expected one"));
  }
  JsonReader entry(group, where);
  RefuseUnless(entry, "format", entry.String("format", form) == form,
               absl::StrCat("\"", form, "\""));
  RefuseUnless(entry, "output_activations", !entry.Has("output_activations"), "none");
  const nlohmann::json* inputs = entry.Object("input_activations");
  const nlohmann::json* args = entry.Object("weights");
  if (args == nullptr) entry.Fail("weights", "an object");
  BATON_RETURN_IF_ERROR(entry.status());
  BATON_ASSIGN_OR_RETURN(QuantizationConfig config, ReadWeightArgs(*args, format, where));
  if (inputs != nullptr) BATON_RETURN_IF_ERROR(ReadInputArgs(*inputs, where, config));
  return config;
}

// The format, which the early name "naive-quantized" leaves to the type of the weights.
absl::StatusOr<Format> ReadForm(JsonReader& reader, const std::string& form,
                                const nlohmann::json* groups) {
  if (form == "pack-quantized") return Format::kPackQuantized;
  if (form == "int-quantized") return Format::kIntQuantized;
  if (form == "float-quantized") return Format::kFloatQuantized;
  if (form == "naive-quantized" && groups != nullptr && !groups->empty()) {
    const nlohmann::json& group = groups->front();
    const auto weights = group.is_object() ? group.find("weights") : group.end();
    const bool floats = weights != group.end() && weights->is_object() &&
                        weights->value("type", nlohmann::json()) == "float";
    return floats ? Format::kFloatQuantized : Format::kIntQuantized;
  }
  reader.Fail("format", "\"pack-quantized\", \"int-quantized\" or \"float-quantized\"");
  return reader.status();
}

}  // namespace

absl::StatusOr<QuantizationConfig> ReadCompressedTensors(JsonReader& reader) {
  const std::string form = reader.String("format", "pack-quantized");
  const nlohmann::json* groups = reader.Object("config_groups");
  RefuseTransforms(reader);
  BATON_RETURN_IF_ERROR(reader.status());
  BATON_ASSIGN_OR_RETURN(const Format format, ReadForm(reader, form, groups));
  std::optional<QuantizationConfig> config;
  if (groups != nullptr) {
    for (const auto& [name, group] : groups->items()) {
      const std::string where = absl::StrCat(reader.where(), " config_groups ", name);
      BATON_ASSIGN_OR_RETURN(const QuantizationConfig read,
                             ReadGroupOfModules(group, format, form, where));
      if (config.has_value() && !Same(*config, read)) {
        return absl::InvalidArgumentError(absl::StrCat(
            where, " quantizes to ", read.name(), ", another group of modules to ", config->name(),
            ", or their inputs differ; expected one kind for all modules"));
      }
      config = read;
    }
  }
  if (!config.has_value()) reader.Fail("config_groups", "an object with a group of modules");
  BATON_RETURN_IF_ERROR(reader.status());
  return *config;
}

}  // namespace baton
