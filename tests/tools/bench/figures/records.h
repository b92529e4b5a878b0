#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "tools/bench/load/load_generator.h"

namespace baton::bench {

// A request that was sent when it was scheduled and whose tokens came one by one at `tokens`.
inline RequestRecord RecordOf(int64_t index, double scheduled, const std::vector<double>& tokens,
                              int32_t prompt_tokens = 10) {
  RequestRecord record;
  record.index = index;
  record.scheduled = record.sent = scheduled;
  for (const double at : tokens) record.chunks.push_back({at, 1});
  record.ended = tokens.empty() ? scheduled : tokens.back();
  record.request_id = "r" + std::to_string(index);
  record.prompt_tokens = record.planned_prompt_tokens = prompt_tokens;
  record.output_tokens = record.max_tokens = static_cast<int32_t>(tokens.size());
  record.finish_reason = "length";
  return record;
}

inline LoadResult LoadOf(std::vector<RequestRecord> records) {
  LoadResult load;
  load.records = std::move(records);
  load.lag_ms.assign(load.records.size(), 0.1);
  for (const RequestRecord& record : load.records) {
    load.duration_s = std::max(load.duration_s, record.ended);
  }
  return load;
}

}  // namespace baton::bench
