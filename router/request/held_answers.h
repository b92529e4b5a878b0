#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "baton/v1/inference.pb.h"
#include "router/edge/client_sink.h"

namespace baton {

// The answers of a request of which only the best are given, until all have ended. Not thread-safe.
class HeldAnswers final {
 public:
  explicit HeldAnswers(int32_t answers) : answers_(static_cast<size_t>(answers)) {}

  // Both by the index of their message.
  void Append(v1::Delta delta);
  void End(v1::Final final);

  // Gives the `best` of them away that have the highest score, of equals those of the lower index,
  // renumbered in this order. Call once, when all have ended.
  std::vector<HeldAnswer> TakeBest(int32_t best);

 private:
  struct Held {
    HeldAnswer answer;
    size_t last_bytes = 0;  // of the last delta
  };
  std::vector<Held> answers_;  // by index
};

}  // namespace baton
