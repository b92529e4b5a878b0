#include "common/formats/compressed_tensors_config.h"

#include <algorithm>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/quantization_fields.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

using Format = QuantizationConfig::Format;

// The format of a checkpoint whose groups of modules each name their own.
constexpr char kMixed[] = "mixed-precision";
constexpr char kForms[] = "\"pack-quantized\", \"int-quantized\" or \"float-quantized\"";
constexpr size_t kMostGroups = 64;
// Of the patterns of all groups. Every weight is asked for among them.
constexpr int64_t kMostInstructions = 4096;

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

// The format, which the early name "naive-quantized" leaves to the type of the weights.
absl::StatusOr<Format> ReadForm(JsonReader& reader, const std::string& form,
                                const nlohmann::json* weights) {
  if (form == "pack-quantized") return Format::kPackQuantized;
  if (form == "int-quantized") return Format::kIntQuantized;
  if (form == "float-quantized") return Format::kFloatQuantized;
  if (form == "naive-quantized" && weights != nullptr) {
    const bool floats = weights->value("type", nlohmann::json()) == "float";
    return floats ? Format::kFloatQuantized : Format::kIntQuantized;
  }
  reader.Fail("format", kForms);
  return reader.status();
}

// Reads one of the groups of modules, each of which may name its format in place of `form`.
absl::StatusOr<QuantizationConfig> ReadKind(const nlohmann::json& group, const std::string& form,
                                            const std::string& where) {
  if (!group.is_object()) {
    return absl::InvalidArgumentError(absl::StrCat(where, " is no object; expected one"));
  }
  JsonReader entry(group, where);
  RefuseUnless(entry, "output_activations", !entry.Has("output_activations"), "none");
  const nlohmann::json* inputs = entry.Object("input_activations");
  const nlohmann::json* args = entry.Object("weights");
  if (args == nullptr) entry.Fail("weights", "an object");
  const std::string own = entry.String("format", form);
  BATON_RETURN_IF_ERROR(entry.status());
  if (own == kMixed) {
    return absl::InvalidArgumentError(absl::StrCat(where, " names no format of its own beside \"",
                                                   kMixed, "\"; expected ", kForms));
  }
  BATON_ASSIGN_OR_RETURN(const Format format, ReadForm(entry, own, args));
  BATON_ASSIGN_OR_RETURN(QuantizationConfig config, ReadWeightArgs(*args, format, where));
  if (inputs != nullptr) BATON_RETURN_IF_ERROR(ReadInputArgs(*inputs, where, config));
  return config;
}

// A group of modules as config.json has it.
struct GroupOfModules {
  std::string where;
  QuantizationConfig kind;
  nlohmann::json targets;
};

absl::StatusOr<std::vector<GroupOfModules>> ReadGroups(const nlohmann::json& groups,
                                                       const std::string& form,
                                                       const std::string& owner) {
  std::vector<GroupOfModules> read;
  for (const auto& [name, group] : groups.items()) {
    std::string where = absl::StrCat(owner, " config_groups ", name);
    BATON_ASSIGN_OR_RETURN(QuantizationConfig kind, ReadKind(group, form, where));
    read.push_back({.where = std::move(where),
                    .kind = std::move(kind),
                    .targets = group.value("targets", nlohmann::json())});
  }
  return read;
}

// Whether the output projection is among the targets by its name.
bool NamesOutput(const nlohmann::json& targets) {
  return targets.is_array() &&
         std::find(targets.begin(), targets.end(), nlohmann::json(kOutputModule)) != targets.end();
}

// Reads the targets of groups of several kinds.
absl::StatusOr<std::vector<QuantizedModules>> ReadTargets(std::vector<GroupOfModules> groups) {
  std::vector<QuantizedModules> read;
  int64_t instructions = 0;
  for (GroupOfModules& group : groups) {
    BATON_ASSIGN_OR_RETURN(ModuleTargets targets, ModuleTargets::Read(group.targets, group.where));
    instructions += targets.instructions();
    if (instructions > kMostInstructions) {
      return absl::InvalidArgumentError(absl::StrCat(
          group.where, " has targets whose regular expressions, with those of the groups before, ",
          "take more than ", kMostInstructions,
          " instructions; expected fewer: write the names of the modules instead"));
    }
    read.push_back({.targets = std::move(targets), .kind = std::move(group.kind)});
  }
  return read;
}

// What groups of modules, of which there is one, describe together.
absl::StatusOr<QuantizationConfig> Merged(std::vector<GroupOfModules> groups) {
  QuantizationConfig config = groups.front().kind;
  bool several = false;
  for (const GroupOfModules& group : groups) {
    if (NamesOutput(group.targets)) config.output = QuantizationConfig::Output::kIntegers;
    if (SameKind(config, group.kind)) continue;
    several = true;
    if (!config.fp8() && !group.kind.fp8()) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        group.where, " quantizes to ", group.kind.name(), ", another group of modules to ",
        config.name(),
        ", or their inputs differ; expected one kind for all modules, or several of integers"));
  }
  if (!several) return config;
  if (groups.size() > kMostGroups) {
    return absl::InvalidArgumentError(
        absl::StrCat(groups[kMostGroups].where, " is one of ", groups.size(),
                     " groups of modules of several kinds; expected at most ", kMostGroups));
  }
  BATON_ASSIGN_OR_RETURN(config.modules, ReadTargets(std::move(groups)));
  return config;
}

}  // namespace

absl::StatusOr<QuantizationConfig> ReadCompressedTensors(JsonReader& reader) {
  const std::string form = reader.String("format", "pack-quantized");
  const nlohmann::json* groups = reader.Object("config_groups");
  RefuseTransforms(reader);
  if (form != kMixed) {
    // An unknown one is refused even where every group of modules names its own.
    const nlohmann::json any = {{"type", "int"}};
    BATON_RETURN_IF_ERROR(ReadForm(reader, form, &any).status());
  }
  if (groups == nullptr || groups->empty()) {
    reader.Fail("config_groups", "an object with a group of modules");
  }
  BATON_RETURN_IF_ERROR(reader.status());
  BATON_ASSIGN_OR_RETURN(std::vector<GroupOfModules> read,
                         ReadGroups(*groups, form, reader.where()));
  return Merged(std::move(read));
}

}  // namespace baton
