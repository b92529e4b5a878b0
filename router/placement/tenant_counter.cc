#include "router/placement/tenant_counter.h"

#include <algorithm>
#include <cmath>

namespace baton {
namespace {

constexpr double kCostOfAnOutputToken = 2;  // of one that is generated; those of prompts cost 1
constexpr double kPartOfTheLast = 0.125;    // in the moving mean of outputs

double CostOf(int64_t prompt_tokens, int64_t output_tokens) {
  return static_cast<double>(prompt_tokens) +
         kCostOfAnOutputToken * static_cast<double>(output_tokens);
}

}  // namespace

void TenantCounter::LiftTo(double level) { served_ = std::max(served_, level); }

TokenCharge TenantCounter::Charge(int64_t prompt_tokens, int64_t output_limit) {
  const TokenCharge charge{
      .prompt_tokens = prompt_tokens,
      .output_tokens = std::min<int64_t>(output_limit, std::llround(usual_output_))};
  served_ += CostOf(charge.prompt_tokens, charge.output_tokens) / weight_;
  return charge;
}

void TenantCounter::Settle(const TokenCharge& charge, const TokensServed& served) {
  if (!served.output_tokens && !served.in_vain) return;
  const int64_t output_tokens = served.output_tokens.value_or(0);
  const int64_t prompt_tokens = served.in_vain ? 0 : charge.prompt_tokens;
  served_ +=
      (CostOf(prompt_tokens, output_tokens) - CostOf(charge.prompt_tokens, charge.output_tokens)) /
      weight_;
  if (served.in_vain) return;
  usual_output_ += kPartOfTheLast * (static_cast<double>(output_tokens) - usual_output_);
}

}  // namespace baton
