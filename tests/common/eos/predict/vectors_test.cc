// The evaluation of predictor files against what the training computed: the files of `vectors` are
// written by analysis/ from its own evaluation.
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <limits>
#include <set>
#include <string>

#include "common/eos/predict/predictor_file.h"
#include "nlohmann/json.hpp"

namespace baton {
namespace {

constexpr double kTolerance = 1e-5;

struct Vector {
  PredictorFile file;
  PredictRequest request;
  nlohmann::json json;
};

std::vector<std::filesystem::path> VectorFiles() {
  std::vector<std::filesystem::path> paths;
  const std::string folder = std::string(BATON_SOURCE_DIR) + "/tests/common/eos/predict/vectors";
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".json") paths.push_back(entry.path());
  }
  return paths;
}

Vector Load(const std::filesystem::path& path) {
  std::ifstream in(path);
  Vector vector{.json = nlohmann::json::parse(in)};
  auto file = ParsePredictorFile(vector.json["predictor"].get<std::string>());
  EXPECT_TRUE(file.ok()) << path << ": " << file.status();
  if (file.ok()) vector.file = *std::move(file);
  const auto& request = vector.json["request"];
  vector.request = {.prompt_tokens = request["prompt_length"],
                    .temperature = request["temperature"],
                    .top_p = request["top_p"],
                    .length_class = request.value("class", "")};
  return vector;
}

double NumberOr(const nlohmann::json& json, double otherwise) {
  return json.is_null() ? otherwise : json.get<double>();
}

SignalRow RowOf(const nlohmann::json& json, std::vector<float>* probe) {
  constexpr double kNone = std::numeric_limits<double>::quiet_NaN();
  probe->clear();
  if (json.contains("probe")) *probe = json["probe"].get<std::vector<float>>();
  const bool line = json["line"];
  return {.eos_logprob = NumberOr(json["eos_logprob"], kNone),
          .eos_prob_sampling = NumberOr(json["eos_prob_sampling"], kNone),
          .entropy = NumberOr(json["entropy"], kNone),
          .top1_prob = NumberOr(json["top1_prob"], kNone),
          .eos_rank = static_cast<int32_t>(NumberOr(json["eos_rank"], 0)),
          .token = json["token"],
          .ends_line = line,
          .ends_sentence = json["boundary"].get<bool>() && !line,
          .probe = *probe};
}

void ExpectFeatures(const SignalFeatures& features, const nlohmann::json& expected, size_t at,
                    std::set<Feature>* compared) {
  for (const auto& [name, value] : expected.items()) {
    const auto feature = FeatureOfName(name);
    if (!feature) continue;
    compared->insert(*feature);
    const double found = features.values()[static_cast<size_t>(*feature)];
    EXPECT_NEAR(found, value.get<double>(), 1e-6 * (1 + std::abs(value.get<double>())))
        << name << " of row " << at;
  }
}

void ExpectEstimate(const EndChances& chances, double tail_mean, const nlohmann::json& expected,
                    size_t at) {
  for (size_t bin = 0; bin < kBins; ++bin) {
    EXPECT_NEAR(chances[bin], expected["within"][bin].get<double>(), kTolerance)
        << "bin " << bin << " of row " << at;
  }
  const EndEstimate estimate =
      EstimateOf(chances, tail_mean, static_cast<int32_t>(at) + 1, PredictorKind::kGru);
  const auto expect_near = [&](float found, const char* key) {
    const double value = expected[key];
    EXPECT_NEAR(found, value, kTolerance * (1 + value)) << key << " of row " << at;
  };
  expect_near(estimate.expected_remaining, "expected_remaining");
  expect_near(estimate.p50, "p50");
  expect_near(estimate.p90, "p90");
}

TEST(PredictorVectorsTest, EveryKindIsEvaluatedAsInTheTraining) {
  std::set<PredictorKind> kinds;
  std::set<Feature> compared;
  for (const auto& path : VectorFiles()) {
    SCOPED_TRACE(path.filename().string());
    const Vector vector = Load(path);
    ASSERT_NE(vector.file.model, nullptr);
    kinds.insert(vector.file.model->kind());
    SignalFeatures features(vector.request);
    std::vector<double> state(vector.file.model->state_size());
    std::vector<float> probe;
    for (size_t at = 0; at < vector.json["rows"].size(); ++at) {
      features.Add(RowOf(vector.json["rows"][at], &probe));
      ExpectFeatures(features, vector.json["features"][at], at, &compared);
      const auto chances = vector.file.Step({features, vector.request.length_class}, state);
      ASSERT_TRUE(chances.has_value()) << at;
      ExpectEstimate(*chances, vector.file.tail_mean, vector.json["estimates"][at], at);
    }
  }
  EXPECT_EQ(compared.size(), kFeatureCount);
  EXPECT_EQ(kinds,
            (std::set{PredictorKind::kSurvival, PredictorKind::kLogistic, PredictorKind::kTrees,
                      PredictorKind::kMlp, PredictorKind::kGru, PredictorKind::kSum}));
}

}  // namespace
}  // namespace baton
