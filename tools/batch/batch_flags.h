#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/config/flag_set.h"
#include "tools/batch/batch_part.h"
#include "tools/client/client_flags.h"
#include "tools/serve/serve_flags.h"

namespace baton::batch {

// The settings of `baton batch IN OUT [MODEL]`.
struct BatchFlags {
  BatchFlags() {
    client.server = "127.0.0.1:8000";
    // Longer than a router lets a request take, so that its own word comes first.
    client.timeout = std::chrono::seconds(660);
    own.router.eos_log.clear();
  }

  std::string in;
  std::string out;
  std::string model;  // directory; "" = the service that is there
  std::string part_text;
  BatchPart part;
  std::optional<int32_t> concurrency;
  base::Duration patience = std::chrono::minutes(15);
  bool retry_failed = false;
  ClientFlags client;
  ServeFlags own;  // of workers that are started here
};

// How many requests are under way at once: as said, else as many as fill workers of our own twice,
// so that the next ones wait at the router when places become free, else 128.
int32_t ConcurrencyOf(const BatchFlags& flags);

void BindBatch(FlagSet* set, BatchFlags* flags);

// The command line of `baton serve` for `flags.model`, without the program's name.
std::vector<std::string> ServeArguments(const FlagSet& set, const BatchFlags& flags);

}  // namespace baton::batch
