#include "tools/bench/report/row_json.h"

#include <limits>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/json_reader.h"

namespace baton::bench {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kMostSeconds = 1e9;
constexpr int64_t kMostTokens = std::numeric_limits<int32_t>::max();

Json TimingsAsJson(const std::optional<ServerTimings>& timings) {
  if (!timings) return {};
  return {{"queue", timings->queue_ms},
          {"prefill", timings->prefill_ms},
          {"kv_transfer", timings->kv_transfer_ms},
          {"ttft", timings->ttft_ms}};
}

Json ErrorAsJson(const absl::Status& status) {
  if (status.ok()) return {};
  return {{"code", CodeName(status.code())},
          {"message", std::string(status.message().data(), status.message().size())}};
}

absl::StatusCode CodeNamed(const std::string& name) {
  for (int code = 1; code <= 16; ++code) {
    if (CodeName(static_cast<absl::StatusCode>(code)) == name) {
      return static_cast<absl::StatusCode>(code);
    }
  }
  return absl::StatusCode::kUnknown;
}

absl::Status ReadChunks(const nlohmann::json& json, const std::string& where,
                        std::vector<Chunk>* chunks) {
  const auto list = json.find("chunks");
  const auto is_chunk = [](const nlohmann::json& item) {
    return item.is_array() && item.size() == 2 && item[0].is_number() &&
           item[1].is_number_integer();
  };
  if (list == json.end() || !list->is_array()) {
    return absl::InvalidArgumentError(where + ": no list \"chunks\" of [seconds, tokens]");
  }
  for (const nlohmann::json& item : *list) {
    if (!is_chunk(item)) {
      return absl::InvalidArgumentError(absl::StrCat(where, ": in \"chunks\" found ", item.dump(),
                                                     ", expected [seconds, tokens]"));
    }
    chunks->push_back({item[0].get<double>(), item[1].get<int32_t>()});
  }
  return absl::OkStatus();
}

void ReadNested(JsonReader* reader, RequestRecord* record) {
  if (const nlohmann::json* error = reader->Object("error")) {
    JsonReader inner(*error, reader->where() + ": error");
    record->status = absl::Status(CodeNamed(inner.String("code", "")), inner.String("message", ""));
  }
  if (const nlohmann::json* timings = reader->Object("timings_ms")) {
    JsonReader inner(*timings, reader->where() + ": timings_ms");
    const double most = 1e3 * kMostSeconds;
    record->timings = ServerTimings{.queue_ms = inner.Number("queue", -most, most, 0),
                                    .prefill_ms = inner.Number("prefill", -most, most, 0),
                                    .kv_transfer_ms = inner.Number("kv_transfer", -most, most, 0),
                                    .ttft_ms = inner.Number("ttft", -most, most, 0)};
  }
}

}  // namespace

Json RowAsJson(int run, const RequestRecord& record, double lag_ms) {
  Json chunks = Json::array();
  for (const Chunk& chunk : record.chunks) chunks.push_back({chunk.at, chunk.tokens});
  const Json natural_end = record.natural_end_step ? Json(*record.natural_end_step) : Json(nullptr);
  return {{"run", run},
          {"index", record.index},
          {"scheduled", record.scheduled},
          {"sent", record.sent},
          {"ended", record.ended},
          {"chunks", std::move(chunks)},
          {"error", ErrorAsJson(record.status)},
          {"cancelled", record.cancelled},
          {"request_id", record.request_id},
          {"planned_prompt_tokens", record.planned_prompt_tokens},
          {"max_tokens", record.max_tokens},
          {"prompt_tokens", record.prompt_tokens},
          {"cached_tokens", record.cached_tokens},
          {"output_tokens", record.output_tokens},
          {"counted_by_server", record.counted_by_server},
          {"natural_end_step", natural_end},
          {"finish_reason", record.finish_reason},
          {"attempts", record.attempts},
          {"timings_ms", TimingsAsJson(record.timings)},
          {"lag_ms", lag_ms}};
}

absl::StatusOr<Row> RowFromJson(const nlohmann::json& json, const std::string& where) {
  if (!json.is_object()) return absl::InvalidArgumentError(where + ": expected an object");
  JsonReader reader(json, where);
  const auto tokens = [&](std::string_view key) {
    return static_cast<int32_t>(reader.Int(key, -1, kMostTokens, std::nullopt));
  };
  const auto seconds = [&](std::string_view key) {
    return reader.Number(key, -kMostSeconds, kMostSeconds, std::nullopt);
  };
  Row row;
  row.run = static_cast<int>(reader.Int("run", 0, kMostTokens, std::nullopt));
  row.lag_ms = reader.Number("lag_ms", -1e12, 1e12, 0);
  RequestRecord& record = row.record;
  record.index = reader.Int("index", 0, std::numeric_limits<int64_t>::max(), std::nullopt);
  record.scheduled = seconds("scheduled");
  record.sent = seconds("sent");
  record.ended = seconds("ended");
  record.cancelled = reader.Bool("cancelled", false);
  record.request_id = reader.String("request_id", "");
  record.planned_prompt_tokens = tokens("planned_prompt_tokens");
  record.max_tokens = tokens("max_tokens");
  record.prompt_tokens = tokens("prompt_tokens");
  record.cached_tokens = tokens("cached_tokens");
  record.output_tokens = tokens("output_tokens");
  record.counted_by_server = reader.Bool("counted_by_server", true);
  if (reader.Has("natural_end_step")) record.natural_end_step = tokens("natural_end_step");
  record.finish_reason = reader.String("finish_reason", "");
  record.attempts = static_cast<int32_t>(reader.Int("attempts", 0, kMostTokens, 1));
  ReadNested(&reader, &record);
  BATON_RETURN_IF_ERROR(reader.status());
  BATON_RETURN_IF_ERROR(ReadChunks(json, where, &record.chunks));
  return row;
}

}  // namespace baton::bench
