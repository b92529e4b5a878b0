#pragma once

#include <cstdint>
#include <optional>

namespace baton {

// What a request was charged when it got its place.
struct TokenCharge {
  int64_t prompt_tokens = 0;
  int64_t output_tokens = 0;  // that were expected
};

// What an attempt of a request did.
struct TokensServed {
  // Empty: it ended before it told. Then it is taken to be what was expected, unless in vain.
  std::optional<int64_t> output_tokens = 0;
  // It broke, or a worker had no room, and the request comes back: its prompt is charged to the
  // attempt that gets through.
  bool in_vain = false;
};

// How much one tenant was served, in tokens divided by its weight; a generated token counts as two
// of a prompt. A request is charged as soon as it has a place, with the output that the tenant's
// requests have had lately, and what that was wrong by is put right when the attempt ends. Source:
// virtual token counters, "Fairness in Serving Large Language Models", OSDI 2024.
class TenantCounter final {
 public:
  explicit TenantCounter(double weight) : weight_(weight) {}

  double served() const { return served_; }
  // A tenant that has waited for nothing has no claim to what it did not use.
  void LiftTo(double level);
  // Charges a request that may generate up to `output_limit` tokens.
  TokenCharge Charge(int64_t prompt_tokens, int64_t output_limit);
  // Puts the charge right.
  void Settle(const TokenCharge& charge, const TokensServed& served);

 private:
  const double weight_;
  double served_ = 0;
  double usual_output_ = 128;  // tokens; soon forgotten for what is seen
};

}  // namespace baton
