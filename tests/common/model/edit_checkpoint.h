#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <vector>

#include "common/formats/safetensors.h"
#include "common/model/quantize/safetensors_writer.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"

namespace baton::test {

// A tensor of a checkpoint, as a test changes it.
struct TensorBytes {
  std::string dtype;
  std::vector<int64_t> shape;
  std::vector<std::byte> data;
};
using Tensors = std::map<std::string, TensorBytes>;

inline Tensors TensorsIn(const std::string& dir) {
  Tensors tensors;
  const auto files = CheckpointFiles::Open(dir).value();
  for (const StoredTensor* tensor : files->tensors()) {
    tensors[tensor->name] = {
        tensor->dtype, tensor->shape, {tensor->data.begin(), tensor->data.end()}};
  }
  return tensors;
}

inline nlohmann::json ConfigIn(const std::string& dir) {
  std::ifstream file(dir + "/config.json");
  return nlohmann::json::parse(file);
}

// Writes a model directory of such tensors.
inline void WriteModel(const std::string& dir, const nlohmann::json& config,
                       const Tensors& tensors) {
  std::filesystem::remove_all(dir);
  std::filesystem::create_directories(dir);
  std::ofstream(dir + "/config.json") << config;
  std::vector<TensorToWrite> planned;
  for (const auto& [name, tensor] : tensors) {
    planned.push_back({name, tensor.dtype, tensor.shape, std::ssize(tensor.data)});
  }
  const auto writer = SafetensorsWriter::Create(dir + "/model.safetensors", planned).value();
  for (const auto& [name, tensor] : tensors) ASSERT_TRUE(writer->Write(tensor.data).ok());
  ASSERT_TRUE(writer->Close().ok());
}

}  // namespace baton::test
