#include "common/model/footprint.h"

#include <algorithm>

#include "common/base/check.h"
#include "common/model/activations.h"
#include "common/model/kv_arena.h"
#include "common/model/quantize/fp8_reader.h"
#include "common/model/quantize/quantized_parts.h"
#include "common/model/tensor_specs.h"
#include "kernels/quantized_tensor.h"

namespace baton {
namespace {

// The operations of all projections of all layers, for one token.
double ProjectionFlops(const ModelConfig& c) {
  const double attention = static_cast<double>(c.hidden) * (2.0 * c.q_size() + 2.0 * c.kv_size());
  const double mlp = 3.0 * c.hidden * c.ffn;
  return 2.0 * c.layers * (attention + mlp);
}

double OutputFlops(const ModelConfig& c) { return 2.0 * c.hidden * c.vocab; }

// How many pairs (query, key) a layer has when tokens [begin, end) attend to all before them and to
// themselves.
double AttendedPairs(int64_t begin, int64_t end, int64_t window) {
  const auto triangle = [](double n) { return n * (n + 1) / 2; };
  if (window == 0) window = end;
  // Query p sees min(p + 1, window) keys.
  const int64_t ramp_begin = std::min(begin, window);
  const int64_t ramp_end = std::min(end, window);
  const double ramp =
      triangle(static_cast<double>(ramp_end)) - triangle(static_cast<double>(ramp_begin));
  return ramp +
         static_cast<double>(end - begin - (ramp_end - ramp_begin)) * static_cast<double>(window);
}

// Scores and their weighted sum take 2 · head_dim FLOPs each, for every query head and pair.
double AttentionFlops(const ModelConfig& c, int64_t begin, int64_t end) {
  double pairs = 0;
  for (const int32_t window : c.windows) pairs += AttendedPairs(begin, end, window);
  return 4.0 * c.q_size() * pairs;
}

double PrefillFlops(const ModelConfig& c, int64_t tokens) {
  return ProjectionFlops(c) * static_cast<double>(tokens) + OutputFlops(c) +
         AttentionFlops(c, 0, tokens);
}

// What an integer of that kind takes.
double BytesPerWeight(const QuantizationConfig& quantization) {
  if (quantization.format == QuantizationConfig::Format::kGguf) {
    return quantization.bytes_per_weight;
  }
  const double of_group = quantization.symmetric ? 2 : 4;
  // A row with one scale is packed in groups that repeat it.
  const int64_t group = std::min(quantization.group > 0 ? quantization.group : kernels::kMostGroup,
                                 kernels::kMostGroup);
  return quantization.bits / 8.0 + of_group / static_cast<double>(group);
}

}  // namespace

double BytesPerWeight(const ModelConfig& config, kernels::DType compute_dtype) {
  BATON_CHECK(!config.quantization->fp8()) << "its size depends on the device";
  if (config.quantization->modules.empty()) return BytesPerWeight(*config.quantization);
  double bytes = 0;
  double elements = 0;
  for (const TensorSpec& spec : ExpectedTensors(config)) {
    if (!IsProjection(spec.name) || spec.name == kOutputTensor) continue;
    const auto kind = config.quantization->FindKind(spec.name);
    const auto count = static_cast<double>(spec.elements());
    bytes += count * (kind.ok() ? BytesPerWeight(**kind) : SizeOf(compute_dtype));
    elements += count;
  }
  return bytes / elements;
}

double OutputBytesPerWeight(const ModelConfig& config, kernels::DType compute_dtype) {
  const auto floats = static_cast<double>(SizeOf(compute_dtype));
  if (config.tied_embeddings || !config.quantization.has_value()) return floats;
  const QuantizationConfig& quantization = *config.quantization;
  if (quantization.output != QuantizationConfig::Output::kIntegers || quantization.fp8()) {
    return floats;
  }
  if (quantization.format == QuantizationConfig::Format::kGguf) {
    return quantization.output_bytes_per_weight;
  }
  const auto kind = quantization.FindKind(kOutputTensor);
  return kind.ok() ? BytesPerWeight(**kind) : floats;
}

int64_t CountProjectionParameters(const ModelConfig& config) {
  const int64_t attention = 2 * int64_t{config.q_size()} + 2 * int64_t{config.kv_size()};
  return config.layers * int64_t{config.hidden} * (attention + 3 * int64_t{config.ffn});
}

double LastLayerTailFlops(const ModelConfig& config) {
  return 2.0 * config.hidden * (config.q_size() + 3.0 * config.ffn);
}

double ExecutedPrefillFlops(const ModelConfig& config, int32_t tokens) {
  return PrefillFlops(config, tokens) - (tokens - 1) * LastLayerTailFlops(config);
}

namespace {

// Of a weight on the devices that keep it as small as it is stored; those that do not make it a
// float of the compute dtype.
double BytesWhereSmallest(const ModelConfig& config, kernels::DType compute_dtype) {
  if (!config.quantization->fp8()) return BytesPerWeight(config, compute_dtype);
  return MayStayFp8(config, compute_dtype) ? 1 : static_cast<double>(SizeOf(compute_dtype));
}

}  // namespace

Footprint ComputeFootprint(const ModelConfig& config, const FootprintQuery& query) {
  using kernels::DType;
  const LocalShape whole = {config.heads, config.kv_heads, config.ffn, 0};
  const kernels::KvLayout layout = KvLayoutOf(config, whole, query.kv_dtype, query.block_size);
  const int64_t tokens = query.tokens;
  Footprint footprint;
  footprint.parameters = CountParameters(config);
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    footprint.weight_bytes[std::string(kernels::Name(dtype))] =
        footprint.parameters * static_cast<int64_t>(SizeOf(dtype));
  }
  if (config.quantization.has_value()) {
    const int64_t projections = CountProjectionParameters(config);
    const auto element = static_cast<double>(SizeOf(query.compute_dtype));
    const double of_output = element - OutputBytesPerWeight(config, query.compute_dtype);
    const double bytes =
        static_cast<double>(footprint.parameters - projections) * element -
        static_cast<double>(config.hidden) * config.vocab * of_output +
        static_cast<double>(projections) * BytesWhereSmallest(config, query.compute_dtype);
    footprint.weight_bytes[config.quantization->name()] = static_cast<int64_t>(bytes);
  }
  footprint.kv_bytes_per_token = static_cast<int64_t>(layout.bytes_per_token());
  footprint.activation_peak_bytes = PlanActivations(config, whole, query.compute_dtype,
                                                    {.max_tokens = query.tokens, .max_samples = 1})
                                        .total();
  footprint.prefill_flops = PrefillFlops(config, tokens);
  footprint.decode_step_flops =
      ProjectionFlops(config) + OutputFlops(config) + AttentionFlops(config, tokens, tokens + 1);
  const int64_t blocks = (tokens + query.block_size - 1) / query.block_size;
  footprint.max_concurrency =
      query.memory_bytes / (blocks * static_cast<int64_t>(layout.block_bytes()));
  return footprint;
}

}  // namespace baton
