#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "tools/bench/bench_flags.h"

namespace baton::bench {

// What a plan has to know of the server, asked before the load. Zero and empty where the protocol
// does not say.
struct ServerFacts {
  std::string model;
  int32_t vocab_size = 0;
  // EOS and others that prompts must not hold; none of a server of which only the size of the
  // vocabulary is known.
  std::vector<int32_t> excluded_ids;
  int32_t max_model_len = 0;  // prompt and output together
};

// With the baton protocol: from ModelService. With openai: the model's name from /v1/models and the
// vocabulary from --tokenizer or --vocab-size. UNAVAILABLE when nobody answers at the address.
absl::StatusOr<ServerFacts> AskServer(const BenchFlags& flags);

// Tokens per word of plain English prose: by the server's tokenizer, or that of --tokenizer.
absl::StatusOr<double> MeasureTokensPerWord(const BenchFlags& flags, const ServerFacts& facts);

}  // namespace baton::bench
