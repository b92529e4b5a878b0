#include "common/model/quantize/quantize_checkpoint.h"

#include <sys/stat.h>

#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <sstream>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/gguf/gguf_file.h"
#include "common/formats/model_config.h"
#include "common/formats/safetensors.h"
#include "common/model/quantize/quantize_weight.h"
#include "common/model/quantize/safetensors_writer.h"
#include "common/model/tensor_specs.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

namespace fs = std::filesystem;

// A directory beside the one that is wanted, which becomes that one, or goes.
class NewDirectory final {
 public:
  static absl::StatusOr<std::unique_ptr<NewDirectory>> Begin(const std::string& path) {
    std::error_code error;
    if (fs::exists(fs::symlink_status(path, error))) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " is there already; name a directory that is not"));
    }
    std::string temporary = fs::path(path).lexically_normal().string();
    while (temporary.size() > 1 && temporary.back() == '/') temporary.pop_back();
    const std::string wanted = temporary;
    temporary += ".partial-XXXXXX";
    if (mkdtemp(temporary.data()) == nullptr) {
      return absl::UnavailableError(absl::StrCat(
          temporary, " cannot be made: ", std::strerror(errno), "; name another place"));
    }
    chmod(temporary.c_str(), 0755);
    return std::unique_ptr<NewDirectory>(new NewDirectory(wanted, temporary));
  }
  ~NewDirectory() {
    std::error_code ignored;
    if (!finished_) fs::remove_all(temporary_, ignored);
  }
  NewDirectory(const NewDirectory&) = delete;
  NewDirectory& operator=(const NewDirectory&) = delete;

  std::string File(const std::string& name) const { return temporary_ + "/" + name; }
  absl::Status Finish() {
    if (std::rename(temporary_.c_str(), wanted_.c_str()) != 0) {
      return absl::UnavailableError(
          absl::StrCat(wanted_, " cannot be made: ", std::strerror(errno), "; name another place"));
    }
    finished_ = true;
    return absl::OkStatus();
  }

 private:
  NewDirectory(std::string wanted, std::string temporary)
      : wanted_(std::move(wanted)), temporary_(std::move(temporary)) {}
  const std::string wanted_;
  const std::string temporary_;
  bool finished_ = false;
};

constexpr int64_t kSmallestGroup = 32;  // that --group has

// What an output projection becomes, where it is rounded beside such layers.
RoundingScheme OutputScheme(RoundingScheme layers) {
  layers.bits = 8;
  return layers;
}

// A tensor that is written, and how it is rounded, if it is.
struct PlannedTensor {
  StoredTensor tensor;
  std::optional<RoundingScheme> scheme;
  bool again = false;  // it has been written once before, by another name
};

std::vector<PlannedTensor> PlanTensors(const ModelConfig& config, const CheckpointFiles& files,
                                       const CheckpointRounding& rounding) {
  std::optional<RoundingScheme> output;
  if (rounding.output) output = OutputScheme(rounding.layers);
  const bool unties = config.tied_embeddings && rounding.output;
  std::vector<PlannedTensor> planned;
  for (const StoredTensor* tensor : files.tensors()) {
    const bool of_output = tensor->name == kOutputTensor;
    if (of_output && unties) continue;  // a copy of the embeddings, which are rounded below
    std::optional<RoundingScheme> scheme = of_output ? output : std::nullopt;
    if (absl::EndsWith(tensor->name, "_proj.weight") && tensor->shape.size() == 2) {
      scheme = rounding.layers;
    }
    planned.push_back({.tensor = *tensor, .scheme = scheme});
    if (tensor->name != kEmbeddingTensor || !unties) continue;
    planned.push_back({.tensor = *tensor, .scheme = output, .again = true});
    planned.back().tensor.name = kOutputTensor;
  }
  return planned;
}

absl::Status CheckRows(const std::vector<PlannedTensor>& planned) {
  for (const auto& [tensor, scheme, again] : planned) {
    if (!scheme.has_value() || scheme->fp8 || tensor.shape[1] % scheme->group == 0) continue;
    const bool others = tensor.shape[1] % kSmallestGroup == 0;
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", tensor.name, " has ", tensor.shape[1], " columns, --group ",
                     scheme->group, " wants a multiple of that; take ",
                     others ? "a smaller one" : "--scheme fp8, which has a scale for a row"));
  }
  return absl::OkStatus();
}

// The group of modules that compressed-tensors describes so.
nlohmann::ordered_json ModulesOf(const RoundingScheme& scheme, std::vector<std::string> targets) {
  nlohmann::ordered_json weights = {{"num_bits", scheme.bits}, {"type", "int"},
                                    {"symmetric", true},       {"strategy", "group"},
                                    {"dynamic", false},        {"group_size", scheme.group},
                                    {"actorder", nullptr},     {"observer", "minmax"}};
  nlohmann::ordered_json inputs;
  if (scheme.fp8) {
    weights.update({{"num_bits", 8}, {"type", "float"}, {"strategy", "channel"}});
    weights["group_size"] = nullptr;
    inputs = {{"num_bits", 8},       {"type", "float"}, {"symmetric", true},
              {"strategy", "token"}, {"dynamic", true}, {"observer", nullptr}};
  }
  return {{"targets", std::move(targets)},
          {"weights", weights},
          {"input_activations", inputs},
          {"output_activations", nullptr}};
}

// The quantization_config that compressed-tensors writes for that. The output projection is named,
// because other engines do not count it to the class of linear modules.
nlohmann::ordered_json ConfigOf(const CheckpointRounding& rounding) {
  const RoundingScheme& layers = rounding.layers;
  nlohmann::ordered_json groups = {{"group_0", ModulesOf(layers, {"Linear"})}};
  auto ignored = nlohmann::ordered_json::array();
  if (rounding.output) {
    groups["group_1"] = ModulesOf(OutputScheme(layers), {kOutputModule});
  } else {
    ignored.push_back(kOutputModule);
  }
  return {{"quant_method", "compressed-tensors"},
          {"format", layers.fp8 ? "float-quantized" : "pack-quantized"},
          {"quantization_status", "compressed"},
          {"config_groups", groups},
          {"ignore", ignored},
          {"kv_cache_scheme", nullptr}};
}

// Copies what stands beside the weights: tokenizer, templates, defaults.
absl::Status CopyOtherFiles(const std::string& in, const NewDirectory& out) {
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(in, error)) {
    const std::string name = entry.path().filename().string();
    const std::string extension = entry.path().extension().string();
    const bool text = extension == ".json" || extension == ".jinja" || extension == ".txt" ||
                      extension == ".model" || extension == ".md";
    if (!entry.is_regular_file() || !text || name == "config.json" ||
        absl::EndsWith(name, ".index.json")) {
      continue;
    }
    fs::copy_file(entry.path(), out.File(name), error);
    if (error) break;
  }
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("the files of ", in, " cannot be copied: ", error.message()));
}

absl::Status WriteConfig(const std::string& in, const CheckpointRounding& rounding,
                         const NewDirectory& out) {
  std::ifstream from(in + "/config.json", std::ios::binary);
  std::stringstream text;
  text << from.rdbuf();
  auto json = nlohmann::ordered_json::parse(text.str(), nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return absl::InvalidArgumentError(in + "/config.json is no JSON object");
  if (rounding.output) json["tie_word_embeddings"] = false;
  json["quantization_config"] = ConfigOf(rounding);
  std::ofstream to(out.File("config.json"), std::ios::binary);
  to << json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) << "\n";
  to.close();
  if (to) return absl::OkStatus();
  return absl::UnavailableError(out.File("config.json") + " cannot be written; free space");
}

// Rounds and writes one projection; the shape is the last part of integers.
absl::Status WriteProjection(const StoredTensor& tensor, const RoundingScheme& scheme,
                             SafetensorsWriter& writer, QuantizeReport& report) {
  BATON_ASSIGN_OR_RETURN(const PackedProjection packed, PackProjection(tensor, scheme));
  BATON_RETURN_IF_ERROR(writer.Write(packed.codes));
  BATON_RETURN_IF_ERROR(writer.Write(packed.scales));
  if (!scheme.fp8) {
    BATON_RETURN_IF_ERROR(writer.Write(std::as_bytes(std::span(tensor.shape))));
  }
  const double share =
      packed.squared_weights > 0 ? packed.squared_error / packed.squared_weights : 0;
  report.projections.push_back({.name = tensor.name, .relative_error = std::sqrt(share)});
  return absl::OkStatus();
}

absl::Status WriteWeights(const std::vector<PlannedTensor>& planned, const std::string& path,
                          const QuantizeProgress& progress, QuantizeReport& report) {
  std::vector<TensorToWrite> header;
  int64_t total = 0;
  for (const auto& [tensor, scheme, again] : planned) {
    if (!again) total += static_cast<int64_t>(tensor.data.size());
    if (scheme.has_value()) {
      for (TensorToWrite& part : PackedTensors(tensor, *scheme)) header.push_back(std::move(part));
    } else {
      header.push_back(
          {tensor.name, tensor.dtype, tensor.shape, static_cast<int64_t>(tensor.data.size())});
    }
  }
  BATON_ASSIGN_OR_RETURN(const auto writer, SafetensorsWriter::Create(path, header));
  int64_t done = 0;
  for (const auto& [tensor, scheme, again] : planned) {
    if (scheme.has_value()) {
      BATON_RETURN_IF_ERROR(WriteProjection(tensor, *scheme, *writer, report));
    } else {
      BATON_RETURN_IF_ERROR(writer->Write(tensor.data));
    }
    CheckpointFiles::DropPages(tensor);
    if (!again) done += static_cast<int64_t>(tensor.data.size());
    if (progress) progress(done, total);
  }
  report.bytes_after = writer->written();
  return writer->Close();
}

}  // namespace

absl::StatusOr<QuantizeReport> QuantizeCheckpoint(const std::string& in, const std::string& out,
                                                  const CheckpointRounding& rounding,
                                                  const QuantizeProgress& progress) {
  if (rounding.output && rounding.layers.fp8) {
    return absl::InvalidArgumentError(
        "an output projection of integers beside layers of e4m3 is no model that loads; take "
        "layers of 4 or 8 bits, or leave the output projection as it is");
  }
  BATON_ASSIGN_OR_RETURN(const ModelConfig config, LoadModelConfig(in));
  if (IsGgufPath(in)) {
    return absl::FailedPreconditionError(
        absl::StrCat(in, " is a GGUF file; take the directory of the model that it was made from"));
  }
  if (config.quantization.has_value()) {
    return absl::FailedPreconditionError(
        absl::StrCat(in, " is quantized already (", MethodName(config.quantization->format), ", ",
                     config.quantization->name(), "); take the model that it was made from"));
  }
  BATON_ASSIGN_OR_RETURN(const auto files, CheckpointFiles::Open(in));
  BATON_RETURN_IF_ERROR(CheckTensors(config, *files));
  BATON_RETURN_IF_ERROR(CheckTiedOutput(config, *files));
  const std::vector<PlannedTensor> planned = PlanTensors(config, *files, rounding);
  BATON_RETURN_IF_ERROR(CheckRows(planned));
  BATON_ASSIGN_OR_RETURN(const auto directory, NewDirectory::Begin(out));
  QuantizeReport report = {.bytes_before = files->data_bytes()};
  BATON_RETURN_IF_ERROR(
      WriteWeights(planned, directory->File("model.safetensors"), progress, report));
  BATON_RETURN_IF_ERROR(CopyOtherFiles(in, *directory));
  BATON_RETURN_IF_ERROR(WriteConfig(in, rounding, *directory));
  BATON_RETURN_IF_ERROR(directory->Finish());
  return report;
}

}  // namespace baton
