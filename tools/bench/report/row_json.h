#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "nlohmann/json.hpp"
#include "tools/bench/load/request_record.h"

namespace baton::bench {

inline constexpr char kRowsSchema[] = "baton.bench.rows/1";

// One request as a line of rows.jsonl. Numbers survive the way there and back unchanged.
nlohmann::ordered_json RowAsJson(int run, const RequestRecord& record, double lag_ms);

struct Row {
  int run = 0;
  RequestRecord record;
  double lag_ms = 0;
};
// The request of such a line. An error begins with `where`.
absl::StatusOr<Row> RowFromJson(const nlohmann::json& json, const std::string& where);

}  // namespace baton::bench
