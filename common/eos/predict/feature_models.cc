// The models that read the features of one row.
#include <algorithm>

#include "common/eos/predict/models.h"

namespace baton {
namespace {

EndLogits ToLogits(const std::vector<double>& values) {
  EndLogits logits{};
  std::copy_n(values.begin(), kBins, logits.begin());
  return logits;
}

double Leaf(const Tree& tree, int32_t depth, const double* x) {
  const TreeNode* const nodes = tree.data();
  int32_t at = 0;
  for (int32_t step = 0; step < depth; ++step) {
    const TreeNode& node = nodes[at];
    const int32_t left = node.left, right = node.right;
    at = x[node.feature] <= node.threshold ? left : right;
  }
  return nodes[at].threshold;
}

}  // namespace

EndLogits LogisticModel::Step(const PredictorInput& input, std::span<double>) const {
  std::vector<double> x(inputs_.size());
  ReadInputs(inputs_, input.features, x);
  EndLogits logits = bias_;
  for (size_t bin = 0; bin < kBins; ++bin) {
    for (size_t i = 0; i < x.size(); ++i) logits[bin] += weights_[bin * x.size() + i] * x[i];
  }
  return logits;
}

TreesModel::TreesModel(std::vector<ModelInput> inputs,
                       const std::array<std::vector<Tree>, kBins>& trees, EndLogits base)
    : inputs_(std::move(inputs)), base_(base) {
  for (size_t bin = 0; bin < kBins; ++bin) {
    for (const Tree& tree : trees[bin]) {
      Walk walk{.nodes = tree};
      std::vector<int32_t> depths(tree.size());
      for (size_t i = 0; i < tree.size(); ++i) {
        TreeNode& node = walk.nodes[i];
        walk.depth = std::max(walk.depth, depths[i]);
        if (node.feature < 0) {
          node.feature = 0;
          node.left = node.right = static_cast<int16_t>(i);
          continue;
        }
        for (const int16_t child : {node.left, node.right}) {
          int32_t& depth = depths[static_cast<size_t>(child)];
          depth = std::max(depth, depths[i] + 1);
        }
      }
      trees_[bin].push_back(std::move(walk));
    }
  }
}

EndLogits TreesModel::Step(const PredictorInput& input, std::span<double>) const {
  std::vector<double> x(std::max<size_t>(1, inputs_.size()));  // leaves look at the first
  ReadInputs(inputs_, input.features, x);
  EndLogits logits = base_;
  for (size_t bin = 0; bin < kBins; ++bin) {
    for (const Walk& walk : trees_[bin]) logits[bin] += Leaf(walk.nodes, walk.depth, x.data());
  }
  return logits;
}

std::vector<double> RunLayers(const std::vector<DenseLayer>& layers, std::vector<double> x) {
  for (const DenseLayer& layer : layers) {
    std::vector<double> y(layer.bias.begin(), layer.bias.end());
    for (size_t row = 0; row < y.size(); ++row) {
      y[row] += Dot(layer.weights.data() + row * x.size(), x);
      if (layer.relu) y[row] = std::max(0.0, y[row]);
    }
    x = std::move(y);
  }
  return x;
}

EndLogits MlpModel::Step(const PredictorInput& input, std::span<double>) const {
  std::vector<double> x(inputs_.size());
  ReadInputs(inputs_, input.features, x);
  return ToLogits(RunLayers(layers_, std::move(x)));
}

size_t SumModel::state_size() const {
  size_t size = 0;
  for (const auto& part : parts_) size += part->state_size();
  return size;
}

EndLogits SumModel::Step(const PredictorInput& input, std::span<double> state) const {
  EndLogits logits{};
  for (const auto& part : parts_) {
    const EndLogits of_part = part->Step(input, state.first(part->state_size()));
    for (size_t bin = 0; bin < kBins; ++bin) logits[bin] += of_part[bin];
    state = state.subspan(part->state_size());
  }
  return logits;
}

}  // namespace baton
