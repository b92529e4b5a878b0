// Traces, which the bench replays.
#include <algorithm>
#include <string>

#include "tests/fakes/scratch_folder.h"
#include "tests/fuzz/fuzz_target.h"
#include "tools/bench/plan/trace.h"

namespace baton::fuzz {

FUZZ_TARGET(trace) {
  static const ScratchFolder folder;
  const std::string path = folder.Write("trace", input);
  for (const double scale : {1.0, 0.001, 1e6}) {
    const bench::TraceOptions options = {.time_scale = scale, .rows = 100};
    const auto rows = bench::ReadTrace(path, options);
    if (!Accepted(rows.status())) return;
    BATON_CHECK(std::ssize(*rows) <= options.rows) << rows->size();
    const auto earlier = [](const auto& a, const auto& b) { return a.at < b.at; };
    BATON_CHECK(std::is_sorted(rows->begin(), rows->end(), earlier));
    for (const bench::TraceRow& row : *rows) {
      BATON_CHECK(row.at >= base::Duration::zero() && row.input_tokens >= 1 &&
                  row.output_tokens >= 1);
      BATON_CHECK(std::ssize(row.hash_ids) <= row.input_tokens / options.block_tokens + 1);
    }
  }
}

}  // namespace baton::fuzz
