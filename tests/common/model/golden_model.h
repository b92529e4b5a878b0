#pragma once

#include <string>
#include <vector>

#include "common/base/ids.h"

namespace baton::test {

// tests/golden/models/<name>: a served directory and what transformers computes from it in fp32.
struct GoldenModel {
  struct Logits {
    int32_t position = 0;  // in prompt + greedy ids
    std::vector<float> values;
  };
  // States inside the model after the token at `position`.
  struct Hidden {
    int32_t position = 0;
    std::vector<std::vector<float>> layers;  // [layers, hidden], of root mean square 1
    std::vector<float> normed;               // [hidden], as the output projection reads it
  };
  std::string dir;
  std::vector<TokenId> prompt;
  std::vector<TokenId> greedy;
  std::vector<Logits> logits;
  std::vector<Hidden> hidden;
};

// Every directory there, sorted.
std::vector<std::string> GoldenModelNames();
GoldenModel LoadGoldenModel(const std::string& name);

// Models with whole requests in tests/golden/eos, sorted, and the file of one.
std::vector<std::string> GoldenEosNames();
std::string GoldenEosPath(const std::string& name);

}  // namespace baton::test
