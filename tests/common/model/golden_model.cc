#include "tests/common/model/golden_model.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string_view>

#include "common/base/check.h"
#include "nlohmann/json.hpp"

namespace baton::test {
namespace {

// Where the tree lies: elsewhere than it was built when the test was carried to another machine.
std::string SourceDir() {
  const char* moved = std::getenv("BATON_SOURCE_DIR");
  return moved != nullptr ? moved : BATON_SOURCE_DIR;
}

const std::string kRoot = SourceDir() + "/tests/golden/models";
const std::string kEosRoot = SourceDir() + "/tests/golden/eos";

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
  std::ifstream hidden_file(model.dir + "/hidden.json");
  const nlohmann::json hidden = nlohmann::json::parse(hidden_file);
  for (const auto& entry : hidden.at("states")) {
    model.hidden.push_back({entry.at("position"),
                            entry.at("layers").get<std::vector<std::vector<float>>>(),
                            entry.at("normed").get<std::vector<float>>()});
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
