#include "tools/eos/tail_log.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/base/shown_text.h"
#include "common/base/status.h"
#include "common/eos/log_parts.h"
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
  LogTail(const TailOptions& options, const TailHooks& hooks)
      : options_(options), hooks_(hooks), log_(LogNamed(options.path)) {}

  absl::Status Run() {
    std::vector<LogPart> parts;
    if (log_.live) {
      BATON_ASSIGN_OR_RETURN(OpenedLog opened, OpenLog(log_.name));
      parts = std::move(opened.parts);
      Read(std::move(opened));
    } else {
      BATON_ASSIGN_OR_RETURN(RowSource rows, RowSource::Open(log_));
      rows_.emplace(std::move(rows));
    }
    if (!hooks_.write(TailHead())) return absl::OkStatus();
    BATON_RETURN_IF_ERROR(options_.rows ? KeepTheLast(*options_.rows, parts) : ShowAll(parts));
    if (!options_.follow) NoteRest();
    while (options_.follow && reader_ && hooks_.wait()) {
      BATON_RETURN_IF_ERROR(ReadOn());
      if (log_.live) BATON_RETURN_IF_ERROR(OpenAgainIfChanged());
    }
    return absl::OkStatus();
  }

  int64_t no_rows() const { return no_rows_; }

 private:
  void Read(OpenedLog opened) {
    number_ = opened.number;
    rows_.reset();
    rows_.emplace(std::move(opened.live));
  }

  // Calls `take` with the rows that are wanted, up to where the log ends now.
  template <typename Take>
  absl::Status EachRow(RowSource* rows, const Take& take) {
    EosLogRow row;
    while (reader_) {
      BATON_ASSIGN_OR_RETURN(const RowSource::Got got, rows->Next(&row));
      if (got == RowSource::Got::kEnd) break;
      if (got == RowSource::Got::kNoRow) {
        ++no_rows_;
        hooks_.note(absl::StrCat(rows->Place(), " is no row: ", rows->problem()));
      } else if (options_.request_id.empty() || row.request_id == options_.request_id) {
        take(row);
      }
    }
    return absl::OkStatus();
  }

  absl::Status Show(RowSource* rows) {
    return EachRow(rows, [this](const EosLogRow& row) { reader_ = hooks_.write(TailLine(row)); });
  }
  void NoteRest() {
    const std::string rest = rows_->RestText(rows_->rest());
    if (reader_ && !rest.empty()) hooks_.note("left out " + rest);
  }
  absl::Status ReadOn() { return Show(&*rows_); }

  absl::Status ShowPart(const LogPart& part) {
    absl::StatusOr<RowSource> rows = RowSource::Open(LogNamed(part.path));
    // The oldest parts go while others are read.
    if (absl::IsNotFound(rows.status())) return absl::OkStatus();
    return rows.ok() ? Show(&*rows) : rows.status();
  }

  absl::Status ShowAll(const std::vector<LogPart>& parts) {
    for (const LogPart& part : parts) BATON_RETURN_IF_ERROR(ShowPart(part));
    return ReadOn();
  }

  // Shows the last `most` rows that there are now. Of the parts only those are read that have some
  // of them.
  absl::Status KeepTheLast(int64_t most, std::vector<LogPart> parts) {
    std::deque<EosLogRow> kept;
    const auto last_of = [&](RowSource* rows, int64_t room) {
      std::deque<EosLogRow> some;
      const absl::Status read = EachRow(rows, [&](const EosLogRow& row) {
        some.push_back(row);
        if (std::ssize(some) > room) some.pop_front();
      });
      kept.insert(kept.begin(), some.begin(), some.end());
      return read;
    };
    BATON_RETURN_IF_ERROR(last_of(&*rows_, most));
    for (; !parts.empty() && std::ssize(kept) < most; parts.pop_back()) {
      absl::StatusOr<RowSource> rows = RowSource::Open(LogNamed(parts.back().path));
      if (absl::IsNotFound(rows.status())) break;
      if (!rows.ok()) return rows.status();
      BATON_RETURN_IF_ERROR(last_of(&*rows, most - std::ssize(kept)));
    }
    for (const EosLogRow& row : kept) reader_ = reader_ && hooks_.write(TailLine(row));
    return absl::OkStatus();
  }

  absl::Status OpenAgainIfChanged() {
    const LineSource::Change change = rows_->Look();
    if (change == LineSource::Change::kNone) return absl::OkStatus();
    absl::StatusOr<OpenedLog> next = OpenLog(log_.name);
    // Between the look and here it may have been moved away again; the next look tells.
    if (absl::IsNotFound(next.status()) || absl::IsUnavailable(next.status())) {
      return absl::OkStatus();
    }
    if (!next.ok()) return next.status();
    // What was read is a part now, with the number that it was to get.
    if (change == LineSource::Change::kReplaced && next->number > number_) {
      BATON_RETURN_IF_ERROR(ReadOn());
      for (const LogPart& part : next->parts) {
        if (part.number > number_) BATON_RETURN_IF_ERROR(ShowPart(part));
      }
    } else {
      hooks_.note(options_.path + (change == LineSource::Change::kReplaced
                                       ? " was replaced; reading the new file"
                                       : " became shorter; reading it from its beginning"));
    }
    Read(*std::move(next));
    return ReadOn();
  }

  const TailOptions& options_;
  const TailHooks& hooks_;
  const LogFiles log_;
  std::optional<RowSource> rows_;  // of FILE
  int64_t number_ = 0;             // the one that FILE gets when it is full
  int64_t no_rows_ = 0;            // lines that are none
  bool reader_ = true;
};

}  // namespace

std::string TailHead() {
  return absl::StrFormat("%-20s%7s%9s%11s  %-12s%8s  %s\n", "request", "step", "token", "eos_prob",
                         "1e-6 to 1", "rank", "end");
}

std::string TailLine(const EosLogRow& row) {
  const std::string probability = row.eos_prob ? absl::StrFormat("%.3g", *row.eos_prob) : "-";
  // Of several answers, the further ones say which they are.
  const std::string name =
      row.index == 0 ? row.request_id : absl::StrCat(row.request_id, "#", row.index);
  std::string line = absl::StrFormat("%-20s%7d%9d%11s  %-12s%8s", ShownText(name), row.step,
                                     row.token, probability, Bar(row.eos_prob.value_or(0)),
                                     row.eos_rank ? absl::StrCat(*row.eos_rank) : "-");
  if (row.is_finished) {
    absl::StrAppend(&line, "  ", std::string(FinishReasonName(row.finish_reason)));
  }
  return line + "\n";
}

absl::StatusOr<int64_t> TailLog(const TailOptions& options, const TailHooks& hooks) {
  LogTail tail(options, hooks);
  BATON_RETURN_IF_ERROR(tail.Run());
  return tail.no_rows();
}

}  // namespace baton
