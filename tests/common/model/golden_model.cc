#include "tests/common/model/golden_model.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "common/base/check.h"
#include "nlohmann/json.hpp"

namespace baton::test {
namespace {

const std::string kRoot = std::string(BATON_SOURCE_DIR) + "/tests/golden/models";
const std::string kEosRoot = std::string(BATON_SOURCE_DIR) + "/tests/golden/eos";

}  // namespace

std::vector<std::string> GoldenModelNames() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kRoot)) {
    if (entry.is_directory()) names.push_back(entry.path().filename());
  }
  std::sort(names.begin(), names.end());
  BATON_CHECK(!names.empty()) << kRoot;
  return names;
}

GoldenModel LoadGoldenModel(const std::string& name) {
  GoldenModel model;
  model.dir = kRoot + "/" + name;
  std::ifstream file(model.dir + "/golden.json");
  const nlohmann::json json = nlohmann::json::parse(file);
  model.prompt = json.at("prompt_ids").get<std::vector<TokenId>>();
  model.greedy = json.at("greedy_ids").get<std::vector<TokenId>>();
  for (const auto& entry : json.at("logits")) {
    model.logits.push_back({entry.at("position"), entry.at("values").get<std::vector<float>>()});
  }
  return model;
}

std::vector<std::string> GoldenEosNames() {
  constexpr std::string_view kSuffix = ".golden.json";
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(kEosRoot)) {
    const std::string file = entry.path().filename();
    // Dumped logits without a model are the sampler's test.
    if (!file.ends_with(kSuffix) || file.starts_with("sampler.")) continue;
    names.push_back(file.substr(0, file.size() - kSuffix.size()));
  }
  std::sort(names.begin(), names.end());
  BATON_CHECK(!names.empty()) << kEosRoot;
  return names;
}

std::string GoldenEosPath(const std::string& name) {
  return kEosRoot + "/" + name + ".golden.json";
}

}  // namespace baton::test
