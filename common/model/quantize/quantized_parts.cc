#include "common/model/quantize/quantized_parts.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/model/quantize/quantized_layouts.h"

namespace baton {
namespace {

using Format = QuantizationConfig::Format;

bool HoldsFloats(const StoredTensor& tensor) { return TensorDType(tensor).ok(); }

// A part as the format demands it.
struct ExpectedPart {
  std::string name;
  std::vector<std::vector<int64_t>> shapes;  // any of them
  std::vector<std::string> dtypes;           // any of them
  bool optional = false;
};

absl::Status CheckPart(const ExpectedPart& part, const CheckpointFiles& files,
                       const QuantizationConfig& quantization) {
  const StoredTensor* tensor = files.Find(part.name);
  const std::string shape = ShapeText(part.shapes.front());
  if (tensor == nullptr) {
    if (part.optional) return absl::OkStatus();
    return absl::InvalidArgumentError(
        absl::StrCat("tensor ", part.name, " ", shape,
                     " is missing from the checkpoint, whose config.json says ",
                     MethodName(quantization.format), " ", quantization.name(),
                     "; complete the download, or take config.json and weights of one model"));
  }
  for (const std::vector<int64_t>& expected : part.shapes) {
    if (tensor->shape != expected) continue;
    for (const std::string& dtype : part.dtypes) {
      if (tensor->dtype == dtype) return absl::OkStatus();
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor ", part.name, " has shape ", ShapeText(tensor->shape), " and type ", tensor->dtype,
      ", ", MethodName(quantization.format), " ", quantization.name(), " implies ", shape, " of ",
      absl::StrJoin(part.dtypes, " or "), "; take config.json and weights of one model"));
}

int64_t Words(int64_t integers, int32_t bits) {
  const int64_t per_word = 32 / bits;
  return (integers + per_word - 1) / per_word;
}

// The shapes in which a scale for a whole weight, and for its rows, is stored, or that for blocks.
std::vector<std::vector<int64_t>> ScaleShapes(const QuantizationConfig& q, int64_t out,
                                              int64_t in) {
  if (q.block_rows == 0) return {{out, 1}, {out}, {1}, {}, {1, 1}};
  return {{(out + q.block_rows - 1) / q.block_rows, (in + q.block_cols - 1) / q.block_cols}};
}

std::vector<ExpectedPart> PartsOf(const QuantizationConfig& q, const TensorSpec& weight) {
  const int64_t out = weight.shape[0];
  const int64_t in = weight.shape[1];
  const int64_t groups = q.group > 0 ? (in + q.group - 1) / q.group : 1;
  const PartNames names = PartNames::Of(q.format, weight.name);
  const std::vector<std::string> floats = {"F16", "BF16", "F32"};
  const std::vector<std::string> words = {"I32"};
  const std::vector<std::string> bytes = {"I8"};
  const std::vector<int64_t> by_row = {out, groups};
  std::vector<ExpectedPart> parts;
  if (q.fp8()) {
    parts.push_back({names.codes, {{out, in}}, {"F8_E4M3"}});
    parts.push_back({names.scales, ScaleShapes(q, out, in), floats});
  } else if (q.format == Format::kPackQuantized) {
    parts.push_back({names.codes, {{out, Words(in, q.bits)}}, words});
    parts.push_back({names.scales, {by_row}, floats});
    if (!q.symmetric) {
      parts.push_back({names.zero_points, {{Words(out, q.bits), groups}}, words});
    }
  } else if (q.format == Format::kIntQuantized) {
    parts.push_back({names.codes, {{out, in}}, bytes});
    parts.push_back({names.scales, {by_row}, floats});
    if (!q.symmetric) parts.push_back({names.zero_points, {by_row}, bytes});
  } else {
    const bool gptq = q.format == Format::kGptq;
    parts.push_back({names.codes,
                     {gptq ? std::vector<int64_t>{Words(in, q.bits), out}
                           : std::vector<int64_t>{in, Words(out, q.bits)}},
                     words});
    parts.push_back({names.scales, {{groups, out}}, floats});
    parts.push_back({names.zero_points, {{groups, Words(out, q.bits)}}, words});
  }
  if (!names.group_of.empty()) {
    parts.push_back({names.group_of, {{in}}, words, !q.groups_by_tensor});
  }
  if (!names.shape.empty()) parts.push_back({names.shape, {{2}}, {"I64", "I32"}, true});
  if (!names.input_scale.empty()) {
    parts.push_back({names.input_scale, {{1}, {}, {1, 1}}, floats, !q.static_inputs});
  }
  return parts;
}

// The sizes that a tensor of the checkpoint, which may be null, says that the weight has.
absl::Status CheckShapeValues(const StoredTensor* tensor, const TensorSpec& weight) {
  if (tensor == nullptr) return absl::OkStatus();
  std::vector<int64_t> stored(2);
  for (size_t i = 0; i < stored.size(); ++i) {
    if (tensor->dtype == "I64") {
      std::memcpy(&stored[i], tensor->data.data() + i * sizeof(int64_t), sizeof(int64_t));
    } else {
      int32_t size = 0;
      std::memcpy(&size, tensor->data.data() + i * sizeof(size), sizeof(size));
      stored[i] = size;
    }
  }
  if (stored == weight.shape) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("tensor ", tensor->name, " says ", ShapeText(stored), ", config.json implies ",
                   ShapeText(weight.shape), "; take config.json and weights of one model"));
}

// Whether zero points are all 0, be they packed or, as some tools leave them, not.
bool AreZeros(const QuantizationConfig& quantization, const StoredTensor& zero_points,
              const TensorSpec& weight) {
  const int64_t out = weight.shape[0];
  const bool packed = quantization.format == Format::kPackQuantized && zero_points.dtype == "I32" &&
                      zero_points.shape.size() == 2 &&
                      zero_points.shape[0] == Words(out, quantization.bits);
  if (!packed) {
    return std::ranges::all_of(zero_points.data,
                               [](std::byte byte) { return byte == std::byte{}; });
  }
  const int64_t groups = zero_points.shape[1];
  const auto integers = StoredIntegers::ZeroPoints(quantization, zero_points);
  std::vector<int8_t> row(static_cast<size_t>(groups));
  for (int64_t i = 0; i < out; ++i) {
    integers.Row(i, groups, nullptr, row.data());
    if (std::ranges::any_of(row, [](int8_t zero) { return zero != 0; })) return false;
  }
  return true;
}

// Zero points, null where there are none, of weights that are said to have none. They are not read.
absl::Status CheckZeros(const QuantizationConfig& quantization, const StoredTensor* zero_points,
                        const TensorSpec& weight) {
  if (zero_points == nullptr || AreZeros(quantization, *zero_points, weight)) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "tensor ", zero_points->name,
      " holds zero points that are not 0, config.json says \"symmetric\": true, which means none; "
      "take config.json and weights of one model"));
}

}  // namespace

bool IsProjection(std::string_view weight) {
  return weight.ends_with("_proj.weight") || weight == kOutputTensor;
}

bool IsQuantized(const ModelConfig& config, const CheckpointFiles& files, std::string_view weight) {
  if (!config.quantization.has_value() || !IsProjection(weight)) return false;
  const StoredTensor* plain = files.Find(weight);
  if (plain != nullptr && HoldsFloats(*plain)) return false;
  const auto kind = config.quantization->FindKind(weight);
  if (!kind.ok()) return false;
  if (plain != nullptr) return true;
  // Without any part, the plain tensor is what is missing.
  const PartNames names = PartNames::Of((*kind)->format, std::string(weight));
  return files.Find(names.codes) != nullptr || files.Find(names.scales) != nullptr;
}

PartNames PartNames::Of(Format format, const std::string& weight) {
  const std::string module(absl::StripSuffix(weight, ".weight"));
  switch (format) {
    case Format::kPackQuantized:
      return {.codes = module + ".weight_packed",
              .scales = module + ".weight_scale",
              .zero_points = module + ".weight_zero_point",
              .group_of = module + ".weight_g_idx",
              .shape = module + ".weight_shape",
              .input_scale = module + ".input_scale"};
    case Format::kIntQuantized:
      return {.codes = module + ".weight",
              .scales = module + ".weight_scale",
              .zero_points = module + ".weight_zero_point",
              .group_of = module + ".weight_g_idx",
              .input_scale = module + ".input_scale"};
    case Format::kFloatQuantized:
    case Format::kFp8:
      return {.codes = weight,
              .scales = module + ".weight_scale",
              .input_scale = module + ".input_scale"};
    case Format::kFp8Blocks:
      return {.codes = weight,
              .scales = module + ".weight_scale_inv",
              .input_scale = module + ".input_scale"};
    case Format::kGptq:
      return {.codes = module + ".qweight",
              .scales = module + ".scales",
              .zero_points = module + ".qzeros",
              .group_of = module + ".g_idx"};
    case Format::kAwq:
      return {.codes = module + ".qweight",
              .scales = module + ".scales",
              .zero_points = module + ".qzeros"};
    case Format::kGguf:
      return {.codes = weight};
  }
  return {};
}

std::vector<std::string> PartNames::all() const {
  std::vector<std::string> names;
  for (const std::string* name : {&codes, &scales, &zero_points, &group_of, &shape, &input_scale}) {
    if (!name->empty()) names.push_back(*name);
  }
  return names;
}

std::vector<const StoredTensor*> StoredPartsOf(const ModelConfig& config,
                                               const CheckpointFiles& files,
                                               const std::string& weight) {
  std::vector<const StoredTensor*> parts;
  const auto add = [&](const std::string& name) {
    if (const StoredTensor* tensor = files.Find(name)) parts.push_back(tensor);
  };
  if (!IsQuantized(config, files, weight)) {
    add(weight);
    return parts;
  }
  const QuantizationConfig& kind = config.quantization->KindOf(weight);
  const PartNames names = PartNames::Of(kind.format, weight);
  for (const std::string& name : names.all()) {
    if (kind.symmetric && name == names.zero_points) continue;  // not read
    add(name);
  }
  return parts;
}

const StoredTensor* FindKvScale(const CheckpointFiles& files, int32_t layer, char kind) {
  const std::string module = LayerTensor(layer, "self_attn");
  const std::string k(1, kind);
  for (const std::string& name :
       {absl::StrCat(module, ".", k, "_scale"), absl::StrCat(module, ".", k, "_proj.", k, "_scale"),
        absl::StrCat(module, ".", k, "_proj.output_scale"), absl::StrCat(module, ".kv_scale")}) {
    if (const StoredTensor* const tensor = files.Find(name)) return tensor;
  }
  return nullptr;
}

bool NamesKvScale(std::string_view name) {
  constexpr std::string_view kEnds[] = {
      "_attn.k_scale",       "_attn.v_scale",       "k_proj.k_scale", "v_proj.v_scale",
      "k_proj.output_scale", "v_proj.output_scale", "_attn.kv_scale"};
  return std::ranges::any_of(kEnds, [&](std::string_view end) { return name.ends_with(end); });
}

absl::Status CheckKvScales(const ModelConfig& config, const CheckpointFiles& files) {
  for (int32_t layer = 0; layer < config.layers; ++layer) {
    for (const char kind : {'k', 'v'}) {
      const StoredTensor* const found = FindKvScale(files, layer, kind);
      const std::string name =
          LayerTensor(layer, absl::StrCat("self_attn.", std::string(1, kind), "_scale"));
      const ExpectedPart part = {
          found != nullptr ? found->name : name, {{1}, {}, {1, 1}}, {"F16", "BF16", "F32"}};
      BATON_RETURN_IF_ERROR(CheckPart(part, files, *config.quantization));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckQuantizedParts(const QuantizationConfig& quantization,
                                 const CheckpointFiles& files, const TensorSpec& weight) {
  BATON_CHECK(weight.shape.size() == 2) << weight.name;
  for (const ExpectedPart& part : PartsOf(quantization, weight)) {
    BATON_RETURN_IF_ERROR(CheckPart(part, files, quantization));
  }
  const PartNames names = PartNames::Of(quantization.format, weight.name);
  const auto find = [&files](const std::string& name) {
    return name.empty() ? nullptr : files.Find(name);
  };
  BATON_RETURN_IF_ERROR(CheckShapeValues(find(names.shape), weight));
  if (!quantization.symmetric) return absl::OkStatus();
  return CheckZeros(quantization, find(names.zero_points), weight);
}

}  // namespace baton
