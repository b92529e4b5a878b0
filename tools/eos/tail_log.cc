#include "tools/eos/tail_log.h"

#include <algorithm>
#include <cmath>
#include <deque>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/status.h"
#include "common/eos/flat_json.h"
#include "tools/eos/row_source.h"

namespace baton {
namespace {

constexpr int kBarColumns = 12;
constexpr double kBarDecades = 6;  // an empty bar is 1e-6 or less, a full one is 1

// On a logarithmic scale, as the curve of `baton generate --eos-steps`.
std::string Bar(double probability) {
  if (probability <= 0) return "";
  const double part = 1 + std::log10(probability) / kBarDecades;
  return std::string(static_cast<size_t>(std::lround(kBarColumns * std::clamp(part, 0.0, 1.0))),
                     '#');
}

// One reading of a log, from its beginning to its end or, with `follow`, to the reader's.
class LogTail final {
 public:
  LogTail(const TailOptions& options, const TailHooks& hooks) : options_(options), hooks_(hooks) {}

  absl::Status Run() {
    BATON_ASSIGN_OR_RETURN(RowSource first, RowSource::Open(options_.path));
    rows_.emplace(std::move(first));
    if (!hooks_.write(TailHead())) return absl::OkStatus();
    BATON_RETURN_IF_ERROR(ReadOn(options_.rows));
    if (!ShowKept()) return absl::OkStatus();
    while (options_.follow && reader_ && hooks_.wait()) {
      BATON_RETURN_IF_ERROR(ReadOn(std::nullopt));
      BATON_RETURN_IF_ERROR(OpenAgainIfChanged());
    }
    return absl::OkStatus();
  }

 private:
  // Shows what there is now, or keeps the last `most` of it.
  absl::Status ReadOn(std::optional<int64_t> most) {
    while (reader_) {
      BATON_ASSIGN_OR_RETURN(const RowSource::Got got, rows_->Next(&row_));
      if (got == RowSource::Got::kEnd) break;
      if (got == RowSource::Got::kNoRow) {
        hooks_.note(absl::StrCat(rows_->Place(), " is no row: ", rows_->problem()));
        continue;
      }
      if (!options_.request_id.empty() && row_.request_id != options_.request_id) continue;
      if (!most) {
        reader_ = hooks_.write(TailLine(row_));
        continue;
      }
      kept_.push_back(row_);
      if (static_cast<int64_t>(kept_.size()) > *most) kept_.pop_front();
    }
    return absl::OkStatus();
  }

  bool ShowKept() {
    for (const EosLogRow& row : kept_) reader_ = reader_ && hooks_.write(TailLine(row));
    kept_.clear();
    return reader_;
  }

  absl::Status OpenAgainIfChanged() {
    const LineSource::Change change = rows_->Look();
    if (change == LineSource::Change::kNone) return absl::OkStatus();
    auto next = RowSource::Open(options_.path);
    // Between the look and here it may have been moved away again; the next look tells.
    if (absl::IsNotFound(next.status())) return absl::OkStatus();
    if (!next.ok()) return next.status();
    hooks_.note(options_.path + (change == LineSource::Change::kReplaced
                                     ? " was replaced; reading the new file"
                                     : " became shorter; reading it from its beginning"));
    rows_.reset();
    rows_.emplace(*std::move(next));
    return ReadOn(std::nullopt);
  }

  const TailOptions& options_;
  const TailHooks& hooks_;
  std::optional<RowSource> rows_;
  EosLogRow row_;
  std::deque<EosLogRow> kept_;
  bool reader_ = true;
};

}  // namespace

std::string TailHead() {
  return absl::StrFormat("%-20s%7s%9s%11s  %-12s%8s  %s\n", "request", "step", "token", "eos_prob",
                         "1e-6 to 1", "rank", "end");
}

std::string TailLine(const EosLogRow& row) {
  const std::string probability = row.eos_prob ? absl::StrFormat("%.3g", *row.eos_prob) : "-";
  std::string line = absl::StrFormat("%-20s%7d%9d%11s  %-12s%8s", Shown(row.request_id), row.step,
                                     row.token, probability, Bar(row.eos_prob.value_or(0)),
                                     row.eos_rank ? absl::StrCat(*row.eos_rank) : "-");
  if (row.is_finished) {
    absl::StrAppend(&line, "  ", std::string(FinishReasonName(row.finish_reason)));
  }
  return line + "\n";
}

absl::Status TailLog(const TailOptions& options, const TailHooks& hooks) {
  return LogTail(options, hooks).Run();
}

}  // namespace baton
