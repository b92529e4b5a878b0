#include "tools/bench/report/rows_file.h"

#include <cerrno>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/bench/report/output_path.h"
#include "tools/bench/report/row_json.h"

namespace baton::bench {
namespace {

std::string JsonLine(const nlohmann::ordered_json& json) {
  return json.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace

RowsFile::RowsFile(std::string path, std::FILE* file)
    : path_(std::move(path)), temporary_(WrittenBefore(path_, ".partial")), file_(file) {}

absl::StatusOr<std::unique_ptr<RowsFile>> RowsFile::Create(const std::string& path) {
  const std::string temporary = WrittenBefore(path, ".partial");
  std::FILE* file = std::fopen(temporary.c_str(), "we");
  if (file == nullptr) {
    return absl::ErrnoToStatus(errno, absl::StrCat("cannot create ", temporary, " for --rows"));
  }
  std::unique_ptr<RowsFile> rows(new RowsFile(path, file));
  absl::Status written = rows->Write(JsonLine({{"schema", kRowsSchema}}));
  if (written.ok() && std::fflush(file) != 0) written = rows->Fail("write to", errno);
  if (!written.ok()) return written;
  return rows;
}

RowsFile::~RowsFile() {
  if (file_ == nullptr) return;
  std::fclose(file_);
  if (rows_ == 0 && temporary_ != path_) std::remove(temporary_.c_str());  // nothing was measured
}

absl::Status RowsFile::Fail(const char* what, int error) {
  status_ =
      absl::ErrnoToStatus(error, absl::StrCat("cannot ", what, " ", temporary_, "; it keeps about ",
                                              rows_, " rows, and ", path_,
                                              " was not written; free space or give another path "
                                              "to --rows"));
  return status_;
}

absl::Status RowsFile::Write(const std::string& line) {
  if (!status_.ok()) return status_;
  if (std::fwrite(line.data(), 1, line.size(), file_) != line.size()) {
    return Fail("write to", errno);
  }
  return absl::OkStatus();
}

absl::Status RowsFile::Append(const LoadResult& load, const std::string& label) {
  for (size_t i = 0; i < load.records.size(); ++i) {
    const double lag_ms = i < load.lag_ms.size() ? load.lag_ms[i] : 0;
    BATON_RETURN_IF_ERROR(Write(JsonLine(RowAsJson(runs_, load.records[i], lag_ms))));
    ++rows_;
  }
  BATON_RETURN_IF_ERROR(Write(JsonLine({{"run", runs_},
                                        {"end",
                                         {{"started_unix", load.unix_started},
                                          {"duration_s", load.duration_s},
                                          {"interrupted", load.interrupted},
                                          {"label", label}}}})));
  ++runs_;
  // So that a run is on the disk, or known not to be, before the next one begins.
  if (std::fflush(file_) != 0) return Fail("write to", errno);
  return absl::OkStatus();
}

absl::Status RowsFile::Close(const std::string& partial_reason) {
  const nlohmann::ordered_json reason =
      partial_reason.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(partial_reason);
  BATON_RETURN_IF_ERROR(Write(
      JsonLine({{"complete", true}, {"partial", !partial_reason.empty()}, {"reason", reason}})));
  std::FILE* file = std::exchange(file_, nullptr);
  // Some file systems tell of a full disk only here.
  if (std::fclose(file) != 0) return Fail("close", errno);
  if (temporary_ != path_ && std::rename(temporary_.c_str(), path_.c_str()) != 0) {
    return Fail("rename", errno);
  }
  status_ = absl::FailedPreconditionError(absl::StrCat(path_, " is closed"));
  return absl::OkStatus();
}

}  // namespace baton::bench
