// The CPU time that one step's estimates take on the engine's thread, for each kind of model, with
// random weights in sizes that training gives, and for predictor files. Prints a line per model.
//
//   bench_predictor [sequences [FILE…]]        default 64, and the demo model's predictor
#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "common/eos/predict/end_predictor.h"
#include "common/eos/predict/models.h"

namespace baton {
namespace {

constexpr int32_t kSteps = 200;

std::mt19937 random_numbers(1);

// Of this thread.
double CpuSeconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
}

std::vector<float> Weights(size_t count) {
  std::normal_distribution<float> normal(0, 0.1f);
  std::vector<float> weights(count);
  for (float& weight : weights) weight = normal(random_numbers);
  return weights;
}

std::vector<ModelInput> Inputs(size_t count) {
  std::vector<ModelInput> inputs;
  for (size_t i = 0; i < count; ++i) inputs.push_back({.index = i % kFeatureCount, .scale = 10});
  return inputs;
}

std::unique_ptr<EosPredictor> Logistic() {
  const auto weights = Weights(kBins * kFeatureCount);
  return std::make_unique<LogisticModel>(
      Inputs(kFeatureCount), std::vector<double>(weights.begin(), weights.end()), EndLogits{});
}

// Complete trees of depth `depth`.
std::unique_ptr<EosPredictor> Trees(int32_t per_bin, int32_t depth) {
  std::array<std::vector<Tree>, kBins> trees;
  std::uniform_real_distribution<double> threshold(-1, 1);
  const int32_t inner = (1 << depth) - 1;
  for (auto& of_bin : trees) {
    for (int32_t i = 0; i < per_bin; ++i) {
      Tree tree;
      for (int32_t node = 0; node < 2 * inner + 1; ++node) {
        TreeNode made{.threshold = threshold(random_numbers)};
        if (node < inner) {
          made.feature = static_cast<int16_t>(random_numbers() % kFeatureCount);
          made.left = static_cast<int16_t>(2 * node + 1);
          made.right = static_cast<int16_t>(2 * node + 2);
        }
        tree.push_back(made);
      }
      of_bin.push_back(std::move(tree));
    }
  }
  return std::make_unique<TreesModel>(Inputs(kFeatureCount), trees, EndLogits{});
}

std::vector<DenseLayer> Layers(size_t inputs, const std::vector<size_t>& widths) {
  std::vector<DenseLayer> layers;
  for (const size_t width : widths) {
    layers.push_back({Weights(width * inputs), Weights(width), width != kBins});
    inputs = width;
  }
  return layers;
}

std::unique_ptr<EosPredictor> Mlp() {
  return std::make_unique<MlpModel>(Inputs(kFeatureCount), Layers(kFeatureCount, {64, 64, kBins}));
}

std::unique_ptr<EosPredictor> Gru(int32_t hidden) {
  const size_t inputs = 12, gates = 3 * static_cast<size_t>(hidden), beside = 8;
  GruWeights gru{.hidden = hidden,
                 .w_ih = Weights(gates * inputs),
                 .w_hh = Weights(gates * static_cast<size_t>(hidden)),
                 .b_ih = Weights(gates),
                 .b_hh = Weights(gates)};
  return std::make_unique<GruModel>(Inputs(inputs), std::move(gru), Inputs(beside),
                                    Layers(static_cast<size_t>(hidden) + beside, {32, kBins}));
}

std::unique_ptr<PredictorFile> FileOf(std::unique_ptr<EosPredictor> model) {
  auto file = std::make_unique<PredictorFile>();
  file->model = std::move(model);
  file->tail_mean = 2048;
  return file;
}

// `file` null: lengths that were learnt.
void Measure(const char* name, std::unique_ptr<PredictorFile> file, int32_t sequences) {
  const size_t dims = file && file->probe ? static_cast<size_t>(file->probe->dims) : 0;
  EndPredictor predictor(std::move(file), {});
  for (int32_t i = 0; i < 100; ++i) {
    predictor.survival().Add({.length_class = "a", .to = 100 + i, .natural = true});
  }
  for (int32_t i = 1; i <= sequences; ++i) {
    predictor.Begin(SequenceId(static_cast<uint64_t>(i)),
                    {.prompt_tokens = 100, .temperature = 1, .length_class = "a"}, {}, true);
  }
  SampledToken token;
  token.probe = Weights(dims);
  const double begin = CpuSeconds();
  for (int32_t step = 1; step <= kSteps; ++step) {
    for (int32_t i = 1; i <= sequences; ++i) {
      token.token = (step * 7 + i) % 1000;
      token.eos = {.eos_logprob = -static_cast<float>((step + i) % 20) - 0.5f,
                   .eos_prob_sampling = 0.01f,
                   .eos_rank = 5,
                   .entropy = 2,
                   .top1_prob = 0.4f};
      token.end = predictor.Take(SequenceId(static_cast<uint64_t>(i)), step, token);
    }
  }
  const double spent = CpuSeconds() - begin;
  std::printf("%-28s %8.1f us per step of %d sequences, %6.2f us each\n", name,
              spent / kSteps * 1e6, sequences, spent / kSteps / sequences * 1e6);
}

bool MeasureFile(const std::string& path, int32_t sequences) {
  auto file = ReadPredictorFile(path);
  if (!file.ok()) {
    std::fprintf(stderr, "bench_predictor: %s\n", file.status().ToString().c_str());
    return false;
  }
  const std::string name = path.substr(path.rfind('/') + 1);
  Measure(name.c_str(), std::make_unique<PredictorFile>(*std::move(file)), sequences);
  return true;
}

}  // namespace
}  // namespace baton

int main(int argc, char** argv) {
  const int32_t sequences = argc > 1 ? std::max(1, std::atoi(argv[1])) : 64;
  std::vector<std::string> files(argv + std::min(argc, 2), argv + argc);
  if (files.empty())
    files.push_back(std::string(BATON_SOURCE_DIR) + "/models/demo/eos_predictor.json");
  baton::Measure("learnt", nullptr, sequences);
  baton::Measure("logistic, 42 features", baton::FileOf(baton::Logistic()), sequences);
  baton::Measure("trees, 10 x 100 of depth 5", baton::FileOf(baton::Trees(100, 5)), sequences);
  baton::Measure("mlp, 64-64", baton::FileOf(baton::Mlp()), sequences);
  baton::Measure("gru, 32", baton::FileOf(baton::Gru(32)), sequences);
  for (const std::string& file : files) {
    if (!baton::MeasureFile(file, sequences)) return 2;
  }
  return 0;
}
