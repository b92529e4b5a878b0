#pragma once

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "baton/v1/inference.pb.h"
#include "router/edge/byte_budget.h"

namespace baton {

// What one request holds of the byte budget for answers that are gathered, because the client gets
// them at their end. It takes in steps of 64 KiB, so that what is shorter takes nothing. Not
// thread-safe.
class GatheredBytes final {
 public:
  // For a request of `client`. `budget` outlives whatever is taken.
  GatheredBytes(ByteBudget* budget, std::string client)
      : budget_(budget), client_(std::move(client)) {}

  // So many more are gathered. LIMIT_EXCEEDED when they would be more than a quarter of the budget,
  // QUEUE_FULL with RetryInfo when it has no more for answers of the client now.
  absl::Status Add(size_t bytes);
  // They are gone.
  void Clear();
  // They are gone, and the answer that was made of them holds so many: that answer's share.
  ByteBudget::Share Become(size_t bytes);

 private:
  ByteBudget* const budget_;
  const std::string client_;
  size_t bytes_ = 0;
  ByteBudget::Share held_;
};

// What these hold in memory where they are gathered.
size_t BytesHeld(const v1::Delta& delta);
size_t BytesHeld(const v1::Prompt& prompt);
size_t BytesHeld(const v1::EndPrediction& prediction);

}  // namespace baton
