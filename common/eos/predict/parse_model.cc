#include "common/eos/predict/parse_model.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/eos/predict/models.h"

namespace baton {
namespace {

constexpr size_t kMostInputs = 512;
constexpr size_t kMostClasses = 256;
constexpr size_t kMostSteps = 1 << 17;
constexpr size_t kMostTrees = 2000;  // per bin
constexpr size_t kMostLayers = 8;
constexpr int32_t kMostHidden = 1024;
constexpr double kMostStepHazard = 1 - 1e-9;  // as where models are trained

// "probe[3]" with the prefix "probe[" is 3; -1 for anything else.
int32_t IndexIn(std::string_view name, std::string_view prefix) {
  int32_t index = -1;
  if (!name.starts_with(prefix) || !name.ends_with("]")) return -1;
  const std::string digits(name.substr(prefix.size(), name.size() - prefix.size() - 1));
  return absl::SimpleAtoi(digits, &index) ? index : -1;
}

std::optional<ModelInput> InputOf(std::string_view name, int32_t probe_dims) {
  if (const auto feature = FeatureOfName(name)) {
    return ModelInput{.index = static_cast<size_t>(*feature)};
  }
  for (const auto& [prefix, source] :
       {std::pair("probe[", ModelInput::Source::kProbe),
        std::pair("first_probe[", ModelInput::Source::kFirstProbe)}) {
    const int32_t index = IndexIn(name, prefix);
    if (index >= 0 && index < probe_dims) {
      return ModelInput{.source = source, .index = static_cast<size_t>(index)};
    }
  }
  return std::nullopt;
}

absl::StatusOr<SurvivalCurve> ParseCurve(const JsonFields& fields) {
  BATON_ASSIGN_OR_RETURN(const std::vector<double> steps, fields.Numbers("steps"));
  if (steps.empty() || steps.size() > kMostSteps) {
    return fields.Wrong("steps", absl::StrCat("1 to ", kMostSteps, " steps"));
  }
  BATON_ASSIGN_OR_RETURN(const std::vector<double> hazards,
                         fields.Numbers("hazard", static_cast<int64_t>(steps.size())));
  SurvivalCurve curve;
  int32_t before = 0;
  for (size_t i = 0; i < steps.size(); ++i) {
    if (!(steps[i] > before && steps[i] < 1 << 30 && steps[i] == std::floor(steps[i]))) {
      return fields.Wrong("steps", "whole numbers from 1 on, each above the one before");
    }
    if (!(hazards[i] >= 0 && hazards[i] <= 1)) return fields.Wrong("hazard", "numbers from 0 to 1");
    before = static_cast<int32_t>(steps[i]);
    curve.steps.push_back(before);
    curve.log_survivals.push_back(std::log1p(-std::min(hazards[i], kMostStepHazard)));
  }
  return curve;
}

absl::StatusOr<std::unique_ptr<EosPredictor>> ParseSurvival(const JsonFields& fields) {
  BATON_ASSIGN_OR_RETURN(const JsonFields classes, fields.Object("classes"));
  BATON_ASSIGN_OR_RETURN(const std::string otherwise, fields.Text("default"));
  if (classes.json().size() > kMostClasses) {
    return fields.Wrong("classes", absl::StrCat("at most ", kMostClasses, " classes"));
  }
  std::map<std::string, SurvivalCurve, std::less<>> curves;
  for (const auto& [name, unused] : classes.json().items()) {
    BATON_ASSIGN_OR_RETURN(const JsonFields curve, classes.Object(name));
    BATON_ASSIGN_OR_RETURN(curves[name], ParseCurve(curve));
  }
  if (!curves.contains(otherwise)) return fields.Wrong("default", "the name of one of the classes");
  return std::make_unique<SurvivalModel>(std::move(curves), otherwise);
}

EndLogits AsLogits(const std::vector<double>& numbers) {
  EndLogits logits{};
  std::copy_n(numbers.begin(), kBins, logits.begin());
  return logits;
}

absl::StatusOr<std::unique_ptr<EosPredictor>> ParseLogistic(const JsonFields& fields,
                                                            std::vector<ModelInput> inputs) {
  BATON_ASSIGN_OR_RETURN(
      std::vector<double> weights,
      fields.Packed<double>("weights", static_cast<int64_t>(kBins * inputs.size())));
  BATON_ASSIGN_OR_RETURN(const std::vector<double> bias, fields.Numbers("bias", kBins));
  return std::make_unique<LogisticModel>(std::move(inputs), std::move(weights), AsLogits(bias));
}

absl::StatusOr<Tree> ParseTree(const JsonFields& fields, size_t inputs) {
  BATON_ASSIGN_OR_RETURN(const std::vector<int16_t> features, fields.Packed<int16_t>("f"));
  const auto count = static_cast<int64_t>(features.size());
  BATON_ASSIGN_OR_RETURN(const std::vector<double> thresholds, fields.Packed<double>("t", count));
  BATON_ASSIGN_OR_RETURN(const std::vector<int16_t> left, fields.Packed<int16_t>("l", count));
  BATON_ASSIGN_OR_RETURN(const std::vector<int16_t> right, fields.Packed<int16_t>("r", count));
  if (features.empty()) return fields.Wrong("f", "at least one node");
  Tree tree;
  for (size_t i = 0; i < features.size(); ++i) {
    const bool leaf = features[i] == -1;
    if (!leaf && (features[i] < 0 || static_cast<size_t>(features[i]) >= inputs)) {
      return absl::InvalidArgumentError(
          absl::StrCat(fields.PathOf("f"), "[", i, "] is ", features[i],
                       "; expected -1 or the index of one of ", inputs, " features"));
    }
    // Children behind their parent: every walk comes to an end.
    const auto behind = [&](int16_t child) {
      return child > static_cast<int64_t>(i) && child < count;
    };
    if (!leaf && !(behind(left[i]) && behind(right[i]))) {
      return absl::InvalidArgumentError(absl::StrCat(fields.path(), ": node ", i, " of ", count,
                                                     " has the children ", left[i], " and ",
                                                     right[i], "; expected nodes behind it"));
    }
    tree.push_back(
        {.threshold = thresholds[i], .feature = features[i], .left = left[i], .right = right[i]});
  }
  return tree;
}

absl::StatusOr<std::unique_ptr<EosPredictor>> ParseTrees(const JsonFields& fields,
                                                         std::vector<ModelInput> inputs) {
  BATON_ASSIGN_OR_RETURN(const std::vector<double> base, fields.Numbers("base", kBins));
  const auto bins = fields.json().find("bins");
  if (bins == fields.json().end() || !bins->is_array() || bins->size() != kBins) {
    return fields.Wrong("bins", absl::StrCat("an array of ", kBins, " arrays of trees"));
  }
  std::array<std::vector<Tree>, kBins> trees;
  for (size_t bin = 0; bin < kBins; ++bin) {
    const auto& of_bin = (*bins)[bin];
    const std::string path = absl::StrCat(fields.PathOf("bins"), "[", bin, "]");
    if (!of_bin.is_array() || of_bin.size() > kMostTrees) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, " is not an array of at most ", kMostTrees, " trees"));
    }
    for (size_t i = 0; i < of_bin.size(); ++i) {
      BATON_ASSIGN_OR_RETURN(const JsonFields tree,
                             JsonFields::Of(of_bin[i], absl::StrCat(path, "[", i, "]")));
      BATON_ASSIGN_OR_RETURN(Tree parsed, ParseTree(tree, inputs.size()));
      trees[bin].push_back(std::move(parsed));
    }
  }
  return std::make_unique<TreesModel>(std::move(inputs), trees, AsLogits(base));
}

absl::StatusOr<std::vector<DenseLayer>> ParseLayers(const JsonFields& fields, size_t inputs) {
  BATON_ASSIGN_OR_RETURN(const auto objects, fields.Objects("layers", kMostLayers));
  std::vector<DenseLayer> layers;
  for (const JsonFields& object : objects) {
    DenseLayer layer;
    BATON_ASSIGN_OR_RETURN(layer.bias, object.Packed<float>("bias"));
    if (layer.bias.size() > kMostHidden) {
      return object.Wrong("bias", absl::StrCat("at most ", kMostHidden, " numbers"));
    }
    BATON_ASSIGN_OR_RETURN(
        layer.weights,
        object.Packed<float>("weights", static_cast<int64_t>(layer.bias.size() * inputs)));
    BATON_ASSIGN_OR_RETURN(const std::string activation, object.Text("activation"));
    if (activation != "relu" && activation != "none") {
      return object.Wrong("activation", "\"relu\" or \"none\"");
    }
    layer.relu = activation == "relu";
    inputs = layer.bias.size();
    layers.push_back(std::move(layer));
  }
  if (layers.empty() || inputs != kBins) {
    return fields.Wrong("layers",
                        absl::StrCat("layers of which the last gives ", kBins, " numbers"));
  }
  return layers;
}

absl::StatusOr<std::unique_ptr<EosPredictor>> ParseMlp(const JsonFields& fields,
                                                       std::vector<ModelInput> inputs) {
  BATON_ASSIGN_OR_RETURN(std::vector<DenseLayer> layers, ParseLayers(fields, inputs.size()));
  return std::make_unique<MlpModel>(std::move(inputs), std::move(layers));
}

absl::StatusOr<std::unique_ptr<EosPredictor>> ParseGru(const JsonFields& fields,
                                                       std::vector<ModelInput> head_inputs,
                                                       int32_t probe_dims) {
  GruWeights gru;
  BATON_ASSIGN_OR_RETURN(gru.hidden, fields.Int("hidden", 1, kMostHidden));
  BATON_ASSIGN_OR_RETURN(std::vector<ModelInput> inputs, ParseInputs(fields, "input", probe_dims));
  const int64_t gates = 3 * int64_t{gru.hidden};
  BATON_ASSIGN_OR_RETURN(gru.w_ih,
                         fields.Packed<float>("w_ih", gates * static_cast<int64_t>(inputs.size())));
  BATON_ASSIGN_OR_RETURN(gru.w_hh, fields.Packed<float>("w_hh", gates * gru.hidden));
  BATON_ASSIGN_OR_RETURN(gru.b_ih, fields.Packed<float>("b_ih", gates));
  BATON_ASSIGN_OR_RETURN(gru.b_hh, fields.Packed<float>("b_hh", gates));
  BATON_ASSIGN_OR_RETURN(const JsonFields head, fields.Object("head"));
  BATON_ASSIGN_OR_RETURN(std::vector<DenseLayer> layers,
                         ParseLayers(head, static_cast<size_t>(gru.hidden) + head_inputs.size()));
  return std::make_unique<GruModel>(std::move(inputs), std::move(gru), std::move(head_inputs),
                                    std::move(layers));
}

absl::StatusOr<std::unique_ptr<EosPredictor>> ParseSum(const JsonFields& fields,
                                                       const std::vector<ModelInput>& inputs,
                                                       int32_t probe_dims) {
  BATON_ASSIGN_OR_RETURN(const auto objects, fields.Objects("parts", 2));
  if (objects.size() != 2) return fields.Wrong("parts", "an array of 2 models");
  std::vector<std::unique_ptr<EosPredictor>> parts;
  for (const JsonFields& object : objects) {
    BATON_ASSIGN_OR_RETURN(const std::string kind, object.Text("kind"));
    if (kind == "sum") return object.Wrong("kind", "another kind: sums do not nest");
    BATON_ASSIGN_OR_RETURN(auto part, ParseModel(object, inputs, probe_dims));
    parts.push_back(std::move(part));
  }
  return std::make_unique<SumModel>(std::move(parts));
}

}  // namespace

absl::StatusOr<std::vector<ModelInput>> ParseInputs(const JsonFields& fields,
                                                    std::string_view names_key,
                                                    int32_t probe_dims) {
  BATON_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                         fields.Texts(names_key, kMostInputs));
  const auto count = static_cast<int64_t>(names.size());
  BATON_ASSIGN_OR_RETURN(const std::vector<double> mean, fields.Numbers("mean", count));
  BATON_ASSIGN_OR_RETURN(const std::vector<double> scale, fields.Numbers("scale", count));
  std::vector<ModelInput> inputs;
  for (size_t i = 0; i < names.size(); ++i) {
    auto input = InputOf(names[i], probe_dims);
    if (!input) {
      return absl::InvalidArgumentError(absl::StrCat(
          fields.PathOf(names_key), " names '", names[i],
          "'; expected features that this release knows, and products of a probe with ", probe_dims,
          " directions"));
    }
    if (scale[i] == 0) return fields.Wrong("scale", "no zeros");
    input->mean = mean[i];
    input->scale = scale[i];
    inputs.push_back(*input);
  }
  return inputs;
}

absl::StatusOr<std::unique_ptr<EosPredictor>> ParseModel(const JsonFields& fields,
                                                         const std::vector<ModelInput>& inputs,
                                                         int32_t probe_dims) {
  BATON_ASSIGN_OR_RETURN(const std::string kind, fields.Text("kind"));
  switch (PredictorKindOf(kind)) {
    case PredictorKind::kSurvival:
      return ParseSurvival(fields);
    case PredictorKind::kLogistic:
      return ParseLogistic(fields, inputs);
    case PredictorKind::kTrees:
      return ParseTrees(fields, inputs);
    case PredictorKind::kMlp:
      return ParseMlp(fields, inputs);
    case PredictorKind::kGru:
      return ParseGru(fields, inputs, probe_dims);
    case PredictorKind::kSum:
      return ParseSum(fields, inputs, probe_dims);
    case PredictorKind::kLearnt:
    case PredictorKind::kNone:
      break;
  }
  return fields.Wrong("kind", "survival, logistic, trees, mlp, gru or sum");
}

}  // namespace baton
