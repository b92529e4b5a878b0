// config.json.
#include <cmath>

#include "common/formats/model_config.h"
#include "common/formats/rope_config.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {
namespace {

void CheckRope(const RopeConfig& rope) {
  BATON_CHECK(rope.theta > 0 && std::isfinite(rope.theta)) << rope.theta;
  BATON_CHECK(rope.factor > 0 && std::isfinite(rope.factor)) << rope.factor;
  BATON_CHECK(rope.original_positions >= 0 && rope.original_positions <= kMaxPositions);
  BATON_CHECK(std::isfinite(rope.attention_factor)) << rope.attention_factor;
}

void CheckQuantization(const QuantizationConfig& quantization) {
  BATON_CHECK(quantization.bits == 4 || quantization.bits == 8) << quantization.bits;
  BATON_CHECK(quantization.group >= 0 && quantization.group <= 1 << 20 &&
              quantization.group % 16 == 0)
      << quantization.group;
  BATON_CHECK(quantization.block_rows >= 0 && quantization.block_rows <= 1 << 12 &&
              quantization.block_cols >= 0 && quantization.block_cols <= 1 << 12 &&
              (quantization.block_rows > 0) == (quantization.block_cols > 0))
      << quantization.block_rows << " x " << quantization.block_cols;
  BATON_CHECK(quantization.fp8() || quantization.block_rows == 0);
  BATON_CHECK(quantization.asks_rounded_inputs || !quantization.static_inputs);
  BATON_CHECK(!quantization.name().empty());
  for (const std::string& remark : quantization.Remarks()) BATON_CHECK(!remark.empty());
  for (const char* weight : {"lm_head.weight", "model.layers.0.mlp.up_proj.weight"}) {
    const auto kind = quantization.FindKind(weight);
    BATON_CHECK(kind.ok() || !quantization.modules.empty()) << kind.status();
    BATON_CHECK(!kind.ok() || (*kind)->fp8() == quantization.fp8()) << weight;
  }
  for (const QuantizedModules& modules : quantization.modules) {
    BATON_CHECK(modules.kind.modules.empty() && !modules.kind.fp8());
    CheckQuantization(modules.kind);
  }
}

}  // namespace

FUZZ_TARGET(model_config) {
  const auto config = ParseModelConfig(input, "config.json");
  if (!Accepted(config.status())) return;
  BATON_CHECK(config->layers >= 1 && config->hidden >= 1 && config->ffn >= 1);
  BATON_CHECK(config->heads >= 1 && config->kv_heads >= 1 && config->vocab >= 1);
  BATON_CHECK(config->heads % config->kv_heads == 0);
  BATON_CHECK(config->head_dim >= 8 && config->head_dim <= 256 && config->head_dim % 8 == 0);
  BATON_CHECK(config->max_positions >= 1 && config->max_positions <= kMaxPositions);
  BATON_CHECK(config->rms_eps >= 0 && config->rms_eps <= 1) << config->rms_eps;
  BATON_CHECK(config->q_size() > 0 && config->kv_size() > 0);
  BATON_CHECK(std::ssize(config->windows) == config->layers);
  for (const int32_t window : config->windows) BATON_CHECK(window >= 0) << window;
  for (const TokenId id : config->eos_ids) BATON_CHECK(id >= 0 && id < config->vocab) << id;
  CheckRope(config->rope);
  if (config->quantization.has_value()) CheckQuantization(*config->quantization);
}

}  // namespace baton::fuzz
