#include "tools/planner/question.h"

#include <algorithm>
#include <unordered_set>

namespace baton::planner {

LoadFacts FactsOf(const std::vector<simulator::SimRequest>& requests, int32_t concurrency,
                  int32_t block_tokens, int32_t prefix_tokens) {
  LoadFacts facts{.concurrency = concurrency};
  std::unordered_set<uint64_t> seen;
  for (const simulator::SimRequest& request : requests) {
    const double input = request.input_tokens;
    const double output = request.output_tokens;
    double known = std::min(input, static_cast<double>(prefix_tokens));
    for (const uint64_t id : request.hash_ids) {
      if (!seen.insert(id).second) known += block_tokens;
    }
    known = std::min(known, input - 1);
    facts.input_tokens += input;
    facts.prompt_tokens += input - known;
    facts.products += (input * (input + 1) - known * (known + 1)) / 2;
    facts.output_tokens += output;
    facts.kv_tokens += (output - 1) * (input + output / 2);
    facts.length += input + output / 2;
    facts.longest = std::max(facts.longest, request.input_tokens + request.output_tokens);
  }
  const auto count = static_cast<double>(std::max<size_t>(1, requests.size()));
  for (double* sum : {&facts.input_tokens, &facts.prompt_tokens, &facts.products,
                      &facts.output_tokens, &facts.kv_tokens, &facts.length}) {
    *sum /= count;
  }
  if (concurrency == 0 && requests.size() > 1) {
    const double span = base::Seconds(requests.back().at - requests.front().at);
    if (span > 0) facts.rate = (count - 1) / span;
  }
  return facts;
}

}  // namespace baton::planner
