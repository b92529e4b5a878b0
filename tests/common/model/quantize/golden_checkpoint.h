#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "common/formats/model_config.h"
#include "common/formats/quantization_config.h"
#include "common/model/quantize/quantized_parts.h"
#include "common/model/quantize/safetensors_writer.h"
#include "common/model/weight_source.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/scratch_folder.h"

namespace baton::test {

inline constexpr char kModule[] = "model.layers.0.mlp.up_proj";

// The file of that name in tests/golden/`folder`.
inline nlohmann::json Golden(const std::string& folder, const std::string& name) {
  std::ifstream in(std::string(BATON_SOURCE_DIR) + "/tests/golden/" + folder + "/" + name +
                   ".json");
  return nlohmann::json::parse(in);
}

inline std::vector<std::string> GoldenNames(const std::string& folder) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(BATON_SOURCE_DIR) +
                                                               "/tests/golden/" + folder)) {
    names.push_back(entry.path().stem().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline std::string BytesOf(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2) {
    bytes += static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16));
  }
  return bytes;
}

// A checkpoint with the tensors of one golden projection, which a test may change.
class GoldenCheckpoint {
 public:
  explicit GoldenCheckpoint(nlohmann::json golden) : golden_(std::move(golden)) {
    std::vector<TensorToWrite> planned;
    std::string data;
    for (const auto& [suffix, tensor] : golden_["tensors"].items()) {
      const std::string bytes = BytesOf(tensor["data"]);
      planned.push_back({std::string(kModule) + "." + suffix, tensor["dtype"], tensor["shape"],
                         static_cast<int64_t>(bytes.size())});
      data += bytes;
    }
    const auto writer = SafetensorsWriter::Create(dir_ / "model.safetensors", planned).value();
    BATON_CHECK(writer->Write(std::as_bytes(std::span(data))).ok());
    BATON_CHECK(writer->Close().ok());
    auto quantization = ReadQuantizationConfig(golden_, "config.json");
    BATON_CHECK(quantization.ok()) << quantization.status().ToString();
    config_.quantization = *quantization;
    files_ = CheckpointFiles::Open(dir_.path()).value();
  }

  int64_t rows() const { return golden_["rows"]; }
  int64_t cols() const { return golden_["cols"]; }
  float value(int64_t row, int64_t col) const { return golden_["values"][row * cols() + col]; }
  const ModelConfig& config() const { return config_; }
  const CheckpointFiles& files() const { return *files_; }
  TensorSpec spec() const { return {std::string(kModule) + ".weight", {rows(), cols()}}; }
  WeightItem item(int64_t begin, int64_t end) const {
    return {.name = "item", .ranges = {{spec().name, begin, end}}, .cols = cols()};
  }
  absl::Status Check() const { return CheckQuantizedParts(*config_.quantization, *files_, spec()); }

 private:
  const nlohmann::json golden_;
  const ScratchFolder dir_;
  ModelConfig config_;
  std::unique_ptr<CheckpointFiles> files_;
};

}  // namespace baton::test
