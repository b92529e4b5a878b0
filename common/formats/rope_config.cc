#include "common/formats/rope_config.h"

#include <cmath>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/json_reader.h"

namespace baton {
namespace {

constexpr double kMaxTheta = 1e12;
constexpr double kMaxFactor = 1e6;

void ReadLlama3(JsonReader& reader, RopeConfig& rope) {
  rope.scaling = RopeConfig::Scaling::kLlama3;
  rope.factor = reader.Number("factor", 1, kMaxFactor, {});
  rope.low_freq_factor = reader.Number("low_freq_factor", 1e-6, kMaxFactor, {});
  rope.high_freq_factor = reader.Number("high_freq_factor", 1e-6, kMaxFactor, {});
  rope.original_positions =
      reader.Int("original_max_position_embeddings", 1, kMaxPositions, std::nullopt);
  if (rope.high_freq_factor <= rope.low_freq_factor) {
    reader.Fail("high_freq_factor",
                absl::StrCat("more than low_freq_factor ", rope.low_freq_factor));
  }
}

// Peng et al., "YaRN", 2023; the attention factor as transformers computes it.
double YarnAttentionFactor(JsonReader& reader, double factor) {
  const auto mscale = [factor](double weight) {
    return factor <= 1 ? 1.0 : 0.1 * weight * std::log(factor) + 1.0;
  };
  if (reader.Has("attention_factor")) return reader.Number("attention_factor", 1e-6, 1e6, {});
  const double numerator = reader.Number("mscale", 0, 1e6, 0);
  const double denominator = reader.Number("mscale_all_dim", 0, 1e6, 0);
  if (numerator != 0 && denominator != 0) return mscale(numerator) / mscale(denominator);
  return mscale(1);
}

void ReadYarn(JsonReader& reader, int64_t max_positions, RopeConfig& rope) {
  rope.scaling = RopeConfig::Scaling::kYarn;
  rope.factor = reader.Number("factor", 1, kMaxFactor, {});
  rope.original_positions =
      reader.Int("original_max_position_embeddings", 1, kMaxPositions, max_positions);
  rope.beta_fast = reader.Number("beta_fast", 1e-6, 1e6, 32);
  rope.beta_slow = reader.Number("beta_slow", 1e-6, 1e6, 1);
  rope.attention_factor = YarnAttentionFactor(reader, rope.factor);
  if (!reader.Bool("truncate", true)) reader.Fail("truncate", "true, the only value supported");
}

// Reads one object with a rule. `theta` is what holds where it names none.
absl::StatusOr<RopeConfig> ReadRopeRule(const nlohmann::json& rule, const std::string& where,
                                        double theta, int64_t max_positions) {
  JsonReader reader(rule, where);
  RopeConfig rope;
  rope.theta = reader.Number("rope_theta", 1, kMaxTheta, theta);
  const char* type_key = reader.Has("rope_type") ? "rope_type" : "type";
  const std::string type = reader.String(type_key, "default");
  if (reader.Number("partial_rotary_factor", 0, 1, 1) != 1) {
    reader.Fail("partial_rotary_factor", "1, the only value supported");
  }
  if (reader.Has("full_attention") || reader.Has("sliding_attention")) {
    reader.Fail("full_attention", "one rule for all layers; rules per layer are not supported");
  } else if (type == "linear") {
    rope.scaling = RopeConfig::Scaling::kLinear;
    rope.factor = reader.Number("factor", 1e-3, kMaxFactor, {});
  } else if (type == "llama3") {
    ReadLlama3(reader, rope);
  } else if (type == "yarn") {
    ReadYarn(reader, max_positions, rope);
  } else if (type != "default") {
    reader.Fail(type_key, "default, linear, llama3 or yarn");
  }
  BATON_RETURN_IF_ERROR(reader.status());
  return rope;
}

}  // namespace

absl::StatusOr<RopeConfig> ReadRopeConfig(const nlohmann::json& config, const std::string& where,
                                          int64_t max_positions) {
  JsonReader top(config, where);
  RopeConfig none;
  none.theta = top.Number("rope_theta", 1, kMaxTheta, 10000);
  std::optional<RopeConfig> rope;
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const nlohmann::json* rule = top.Object(key);
    BATON_RETURN_IF_ERROR(top.status());
    if (rule == nullptr || rule->empty()) continue;
    BATON_ASSIGN_OR_RETURN(const RopeConfig read, ReadRopeRule(*rule, absl::StrCat(where, " ", key),
                                                               none.theta, max_positions));
    if (rope.has_value() && *rope != read) {
      return absl::InvalidArgumentError(
          absl::StrCat(where,
                       ": \"rope_parameters\" and \"rope_scaling\" describe different rotations; "
                       "expected one of them, or both alike: put all of it, with its rope_theta, "
                       "into \"rope_parameters\" and remove \"rope_scaling\""));
    }
    rope = read;
  }
  return rope.value_or(none);
}

}  // namespace baton
