#include <algorithm>
#include <cerrno>
#include <fstream>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/formats/json_reader.h"
#include "common/formats/shallow_json.h"
#include "tools/bench/report/row_json.h"
#include "tools/bench/report/rows_file.h"

namespace baton::bench {
namespace {

// What stands in the lines so far.
class RowsReader {
 public:
  absl::Status AddLine(const nlohmann::json& json, const std::string& where) {
    if (content_.complete) {
      return absl::InvalidArgumentError(where + ": a line after the closing one");
    }
    if (!begun_) return Begin(json, where);
    if (json.is_object() && json.contains("complete")) return End(json);
    if (json.is_object() && json.contains("end")) return EndRun(json, where);
    BATON_ASSIGN_OR_RETURN(Row row, RowFromJson(json, where));
    BATON_ASSIGN_OR_RETURN(RowsOfRun * run, RunAt(row.run, where));
    run->load.records.push_back(std::move(row.record));
    run->load.lag_ms.push_back(row.lag_ms);
    return absl::OkStatus();
  }

  absl::StatusOr<RowsContent> Take(const std::string& path) {
    if (!begun_) return absl::InvalidArgumentError(path + " is empty; expected a header line");
    for (RowsOfRun& run : content_.runs) {
      if (run.complete) continue;
      for (const RequestRecord& record : run.load.records) {
        run.load.duration_s = std::max(run.load.duration_s, record.ended);
      }
    }
    return std::move(content_);
  }

 private:
  absl::Status Begin(const nlohmann::json& json, const std::string& where) {
    begun_ = true;
    const auto schema =
        json.is_object() ? json.value("schema", nlohmann::json()) : nlohmann::json();
    if (schema == kRowsSchema) return absl::OkStatus();
    const std::string found = schema.is_string() ? schema.get<std::string>() : schema.dump();
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": found schema '", found, "', expected '", kRowsSchema, "'"));
  }

  absl::Status End(const nlohmann::json& json) {
    content_.complete = true;
    if (const auto reason = json.find("reason"); reason != json.end() && reason->is_string()) {
      content_.partial_reason = reason->get<std::string>();
    }
    return absl::OkStatus();
  }

  absl::Status EndRun(const nlohmann::json& json, const std::string& where) {
    JsonReader reader(json, where);
    const auto index = static_cast<int>(reader.Int("run", 0, 1 << 30, std::nullopt));
    const nlohmann::json* end = reader.Object("end");
    BATON_RETURN_IF_ERROR(reader.status());
    BATON_ASSIGN_OR_RETURN(RowsOfRun * run, RunAt(index, where));
    JsonReader inner(*end, where + ": end");
    run->load.unix_started = inner.Number("started_unix", 0, 1e12, 0);
    run->load.duration_s = inner.Number("duration_s", 0, 1e9, std::nullopt);
    run->load.interrupted = inner.Bool("interrupted", false);
    run->label = inner.String("label", "");
    run->complete = true;
    return inner.status();
  }

  // Runs follow one another.
  absl::StatusOr<RowsOfRun*> RunAt(int index, const std::string& where) {
    const auto known = static_cast<int>(content_.runs.size());
    if (index == known) content_.runs.push_back({.label = "", .load = {}, .complete = false});
    if (index == known || index == known - 1) return &content_.runs.back();
    return absl::InvalidArgumentError(
        absl::StrCat(where, ": run ", index, " after ", known, " runs; expected them in order"));
  }

  RowsContent content_;
  bool begun_ = false;
};

}  // namespace

absl::StatusOr<RowsContent> ReadRows(const std::string& path) {
  std::ifstream file(path);
  if (!file) return absl::NotFoundError(absl::StrCat("cannot read ", path));
  RowsReader reader;
  std::string line;
  for (int64_t number = 1; std::getline(file, line); ++number) {
    const std::string where = absl::StrCat(path, ":", number);
    const nlohmann::json json = ParseShallow(line).value;
    if (json.is_discarded()) {
      if (file.eof()) break;  // a line that was being written
      return absl::InvalidArgumentError(where + ": not JSON");
    }
    BATON_RETURN_IF_ERROR(reader.AddLine(json, where));
  }
  // Taken for the end of the file, it would have half of a run reported.
  if (file.bad())
    return absl::ErrnoToStatus(errno != 0 ? errno : EIO, absl::StrCat("cannot read ", path));
  return reader.Take(path);
}

}  // namespace baton::bench
