#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "tools/eos/collect/collect_store.h"

namespace baton {

// How requests are asked.
struct CollectRun {
  const CollectPrompts* prompts = nullptr;
  CollectGrid grid;
  std::optional<TokenId> eos_token_id;  // the tokenizer's primary EOS
  int32_t concurrency = 1;
  const std::atomic<bool>* stop = nullptr;            // when it turns true, no more are asked
  std::function<void(const std::string& line)> tell;  // of failures and how far it is
};

struct CollectResult {
  int64_t asked = 0;
  int64_t failed = 0;
  // Not OK where the rest was not asked: the disk, a server that answers otherwise than it should,
  // or kMostFailuresInARow.
  absl::Status gave_up;
};

// Requests that the server refuses for what they are do not count.
constexpr int32_t kMostFailuresInARow = 16;

// Asks `requests`, at most `concurrency` of them at a time, and adds the answers to `store` in the
// order in which they end. A request that fails is told and counted, and not added.
CollectResult RunCollect(const CollectRun& run, const std::vector<CollectRequest>& requests,
                         GenerateClient* client, CollectStore* store);

}  // namespace baton
