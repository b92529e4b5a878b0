#pragma once

#include "common/model/random/random_model.h"

namespace baton::test {

// The model of the benches on a CPU, which docs/benchmarks.md names: a Llama of 430 M parameters.
inline constexpr RandomModelSpec kBenchShape = {.layers = 24,
                                                .hidden = 1024,
                                                .heads = 16,
                                                .kv_heads = 4,
                                                .head_dim = 64,
                                                .ffn = 4096,
                                                .vocab = 32000};

}  // namespace baton::test
