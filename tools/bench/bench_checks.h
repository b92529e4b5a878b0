#pragma once

#include <string>

#include "absl/status/status.h"
#include "tools/bench/bench_flags.h"

namespace baton::bench {

// Refuses settings that contradict each other, and those that would silently do nothing. Where the
// sources of settings give both a rate and a concurrency, keeps the one that counts.
absl::Status CheckBenchFlags(const FlagSet& set, BenchFlags* flags);

bool IsUrl(const std::string& server);

}  // namespace baton::bench
