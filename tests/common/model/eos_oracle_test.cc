// The EOS signal against transformers: whole requests whose figures Python computed from weights
// and token ids alone. Format: tests/golden/README.md.
#include <algorithm>
#include <fstream>
#include <string>
#include <tuple>
#include <vector>

#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/common/model/golden_model.h"
#include "tests/common/model/model_harness.h"

namespace baton::test {
namespace {

using nlohmann::json;

constexpr double kTolerance = 1e-4;

// The scalar backend takes minutes for the demo model, and seconds for the tiny ones.
std::vector<std::tuple<std::string, Device>> ModelsAndDevices() {
  std::vector<std::tuple<std::string, Device>> all;
  for (const std::string& name : GoldenEosNames()) {
    for (const Device& device : name == "demo" ? CpuDevices() : AllDevices()) {
      all.emplace_back(name, device);
    }
  }
  return all;
}

class EosOracleTest : public testing::TestWithParam<std::tuple<std::string, Device>> {
 protected:
  EosOracleTest() {
    std::ifstream file(GoldenEosPath(std::get<0>(GetParam())));
    golden_ = json::parse(file);
    model_ = MustLoad(std::string(BATON_SOURCE_DIR) + "/" + golden_.at("model").get<std::string>(),
                      std::get<1>(GetParam()), "float32");
  }

  // Generates a request of the file as it is described there.
  TestSequence Run(const json& request) {
    const json& s = request.at("sampling");
    eos_ids_ = request.at("eos_ids").get<std::vector<TokenId>>();
    stop_ids_ = s.at("stop_token_ids").get<std::vector<TokenId>>();
    stop_ids_.insert(stop_ids_.end(), eos_ids_.begin(), eos_ids_.end());
    for (auto* const ids : {&eos_ids_, &stop_ids_}) {
      std::sort(ids->begin(), ids->end());
      ids->erase(std::unique(ids->begin(), ids->end()), ids->end());
    }
    bias_ = s.at("logit_bias").get<std::vector<std::pair<int32_t, float>>>();
    TestSequence sequence;
    sequence.prompt = request.at("prompt_ids").get<std::vector<TokenId>>();
    sequence.sampling = {.temperature = s.at("temperature"),
                         .top_k = s.at("top_k"),
                         .top_p = s.at("top_p"),
                         .min_p = s.at("min_p"),
                         .repetition_penalty = s.at("repetition_penalty"),
                         .presence_penalty = s.at("presence_penalty"),
                         .frequency_penalty = s.at("frequency_penalty"),
                         .logit_bias = bias_,
                         .eos_ids = eos_ids_,
                         .stop_ids = stop_ids_,
                         .redraw_eos = s.at("eos_policy") == "mask",
                         .seed = s.at("seed")};
    sequence.no_repeat_ngram_size = s.at("no_repeat_ngram_size");
    const int32_t min_tokens = s.at("min_tokens");
    const int32_t count = static_cast<int32_t>(request.at("steps").size());
    RunnerDriver driver(*model_);
    for (int32_t step = 0; step < count; ++step) {
      sequence.sampling.mask_stop_ids = step < min_tokens;
      driver.Generate({&sequence}, step + 1, 5);
    }
    return sequence;
  }

  json golden_;
  std::unique_ptr<LoadedModel> model_;
  std::vector<TokenId> eos_ids_;
  std::vector<TokenId> stop_ids_;
  std::vector<std::pair<int32_t, float>> bias_;
};

TEST_P(EosOracleTest, SignalsAndTokensAreThoseOfTheOracle) {
  size_t redrawn = 0;
  for (const json& request : golden_.at("requests")) {
    const std::string setting = request.at("setting");
    const TestSequence sequence = Run(request);
    ASSERT_EQ(sequence.output, request.at("output_ids").get<std::vector<TokenId>>()) << setting;
    const bool mask = request.at("sampling").at("eos_policy") == "mask";
    for (size_t i = 0; i < sequence.samples.size(); ++i) {
      const SampledToken& sample = sequence.samples[i];
      const json& step = request.at("steps")[i];
      const auto near = [&](const char* key, double actual) {
        EXPECT_NEAR(actual, step.at(key).get<double>(), kTolerance)
            << key << " of step " << i << " of " << setting;
      };
      near("eos_logprob", sample.eos.eos_logprob);
      near("entropy", sample.eos.entropy);
      near("top1_prob", sample.eos.top1_prob);
      near("eos_prob_sampling", sample.eos.eos_prob_sampling);
      near("logprob", sample.logprob);
      EXPECT_EQ(sample.eos.eos_rank, step.at("eos_rank")) << setting << " step " << i;
      if (mask) {
        const bool natural = step.at("first_draw") != step.at("token");
        EXPECT_EQ(sample.natural_end, natural) << setting << " step " << i;
        redrawn += natural ? 1 : 0;
      }
    }
  }
  EXPECT_GE(redrawn, 1U) << "no request redrew an EOS token";
}

INSTANTIATE_TEST_SUITE_P(Models, EosOracleTest, testing::ValuesIn(ModelsAndDevices()),
                         [](const auto& test) {
                           return std::get<0>(test.param) + "_" +
                                  DeviceName(std::get<1>(test.param));
                         });

}  // namespace
}  // namespace baton::test
