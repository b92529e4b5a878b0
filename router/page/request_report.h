#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "common/base/clock.h"

namespace baton {

// What a request on its way waits for. One that waits for the tokenizer counts as queued.
enum class RequestStage { kQueued, kReserving, kPrefilling, kDecoding };

// How a request stands.
struct RequestReport {
  std::string id;
  int32_t index = 0;  // of several answers
  RequestStage stage = RequestStage::kQueued;
  base::Duration age{};
  int32_t prompt_tokens = 0;  // 0 before it is tokenized
  int32_t tokens = 0;         // of the answer so far
  // What is foreseen of the tokens behind these; empty where nothing was, or nobody asked.
  struct Foreseen {
    float expected_remaining = 0, p50 = 0, p90 = 0;
  };
  std::optional<Foreseen> foreseen;
};

}  // namespace baton
