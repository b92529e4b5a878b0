#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "common/eos/predict/eos_predictor.h"
#include "common/eos/predict/model_inputs.h"

// The kinds of model that a predictor file may hold, as plain data with their evaluation. What they
// are made of was checked by the reader of the file: sizes fit, indices point inside.
namespace baton {

// Survival of one class: the hazard of every step in (steps[i - 1], steps[i]], and of all behind
// the last.
struct SurvivalCurve {
  std::vector<int32_t> steps;         // ascending
  std::vector<double> log_survivals;  // log(1 - hazard) per step, finite

  // Of each bin behind `step`: the chance that who reaches it ends in it, as a logit. Chances are
  // held to [1e-9, 1 - 1e-9], as where models are trained, so that sums of logits are the same
  // there.
  EndLogits LogitsAfter(int32_t step) const;
};

class SurvivalModel final : public EosPredictor {
 public:
  SurvivalModel(std::map<std::string, SurvivalCurve, std::less<>> classes, std::string otherwise)
      : classes_(std::move(classes)), default_(classes_.find(otherwise)) {}
  PredictorKind kind() const override { return PredictorKind::kSurvival; }
  size_t state_size() const override { return 0; }
  EndLogits Step(const PredictorInput& input, std::span<double> state) const override;

 private:
  const std::map<std::string, SurvivalCurve, std::less<>> classes_;
  const std::map<std::string, SurvivalCurve, std::less<>>::const_iterator default_;
};

class LogisticModel final : public EosPredictor {
 public:
  // `weights`: [kBins, inputs].
  LogisticModel(std::vector<ModelInput> inputs, std::vector<double> weights, EndLogits bias)
      : inputs_(std::move(inputs)), weights_(std::move(weights)), bias_(bias) {}
  PredictorKind kind() const override { return PredictorKind::kLogistic; }
  size_t state_size() const override { return 0; }
  EndLogits Step(const PredictorInput& input, std::span<double> state) const override;

 private:
  const std::vector<ModelInput> inputs_;
  const std::vector<double> weights_;
  const EndLogits bias_;
};

struct TreeNode {
  double threshold = 0;  // or the value of a leaf
  int16_t feature = -1;  // index of an input; -1 = leaf
  int16_t left = 0;      // if the input <= threshold; both behind this node
  int16_t right = 0;
};
using Tree = std::vector<TreeNode>;

class TreesModel final : public EosPredictor {
 public:
  TreesModel(std::vector<ModelInput> inputs, const std::array<std::vector<Tree>, kBins>& trees,
             EndLogits base);
  PredictorKind kind() const override { return PredictorKind::kTrees; }
  size_t state_size() const override { return 0; }
  EndLogits Step(const PredictorInput& input, std::span<double> state) const override;

 private:
  // A tree whose leaves lead to themselves, so that every walk takes `depth` steps and no branch
  // has to be guessed.
  struct Walk {
    Tree nodes;
    int32_t depth = 0;
  };
  const std::vector<ModelInput> inputs_;
  std::array<std::vector<Walk>, kBins> trees_;
  const EndLogits base_;
};

struct DenseLayer {
  std::vector<float> weights;  // [bias.size(), inputs]
  std::vector<float> bias;
  bool relu = false;
};
// The sum of the products, in a fixed order that lets several run at once.
inline double Dot(const float* weights, std::span<const double> x) {
  std::array<double, 4> sums{};
  size_t i = 0;
  for (; i + 4 <= x.size(); i += 4) {
    for (size_t k = 0; k < 4; ++k) sums[k] += double{weights[i + k]} * x[i + k];
  }
  for (; i < x.size(); ++i) sums[0] += double{weights[i]} * x[i];
  return (sums[0] + sums[1]) + (sums[2] + sums[3]);
}
// What the layers make of `x`, one after the other.
std::vector<double> RunLayers(const std::vector<DenseLayer>& layers, std::vector<double> x);

class MlpModel final : public EosPredictor {
 public:
  MlpModel(std::vector<ModelInput> inputs, std::vector<DenseLayer> layers)
      : inputs_(std::move(inputs)), layers_(std::move(layers)) {}
  PredictorKind kind() const override { return PredictorKind::kMlp; }
  size_t state_size() const override { return 0; }
  EndLogits Step(const PredictorInput& input, std::span<double> state) const override;

 private:
  const std::vector<ModelInput> inputs_;
  const std::vector<DenseLayer> layers_;
};

// A gated recurrent unit in PyTorch's form, gates in the order r, z, n; its state and the head's
// own inputs go into the head.
struct GruWeights {
  int32_t hidden = 0;
  std::vector<float> w_ih;        // [3 hidden, inputs]
  std::vector<float> w_hh;        // [3 hidden, hidden]
  std::vector<float> b_ih, b_hh;  // [3 hidden]
};

class GruModel final : public EosPredictor {
 public:
  GruModel(std::vector<ModelInput> inputs, GruWeights gru, std::vector<ModelInput> head_inputs,
           std::vector<DenseLayer> head)
      : inputs_(std::move(inputs)),
        gru_(std::move(gru)),
        head_inputs_(std::move(head_inputs)),
        head_(std::move(head)) {}
  PredictorKind kind() const override { return PredictorKind::kGru; }
  size_t state_size() const override { return static_cast<size_t>(gru_.hidden); }
  EndLogits Step(const PredictorInput& input, std::span<double> state) const override;

 private:
  const std::vector<ModelInput> inputs_;
  const GruWeights gru_;
  const std::vector<ModelInput> head_inputs_;
  const std::vector<DenseLayer> head_;
};

// The logits of its parts added: a prior hazard and what the rows change about it.
class SumModel final : public EosPredictor {
 public:
  explicit SumModel(std::vector<std::unique_ptr<EosPredictor>> parts) : parts_(std::move(parts)) {}
  PredictorKind kind() const override { return PredictorKind::kSum; }
  size_t state_size() const override;
  EndLogits Step(const PredictorInput& input, std::span<double> state) const override;

 private:
  const std::vector<std::unique_ptr<EosPredictor>> parts_;
};

}  // namespace baton
