#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "tools/batch/batch_input.h"
#include "tools/batch/batch_journal.h"
#include "tools/batch/batch_progress.h"
#include "tools/batch/batch_sender.h"
#include "tools/batch/line_refusals.h"
#include "tools/batch/send_window.h"

namespace baton::batch {

// What to do after an error that ends a run.
inline constexpr char kGoOn[] = "the same command again: what is answered is kept";

struct BatchRunOptions {
  size_t concurrency = 1;
  base::Duration patience{};
  const std::atomic<bool>* stop = nullptr;  // true: end soon
  // Called at least every 100 ms; what it says ends the run. Not null.
  std::function<absl::Status()> look;
};

// Sends lines in their order, writes each answer as it comes, and sends again what the service did
// not take. Not thread-safe.
class BatchRun final {
 public:
  // `lines` are those of `input` that are to be done. All must outlive the run. Without lines there
  // need be no sender.
  BatchRun(BatchRunOptions options, const BatchInput* input, std::vector<InputLine> lines,
           BatchSender* sender, BatchJournal* journal, ProgressLine* view);

  // OK when every line is done, and when it was told to stop: `complete` tells these apart. A line
  // that the service refuses while it answers others ends with that refusal. UNAVAILABLE when the
  // service did not answer for as long as the patience lasts, UNAUTHENTICATED when it refuses the
  // key; errors of the disk; what `look` said.
  absl::Status Run();

  bool complete() const;
  const BatchProgress& progress() const { return progress_; }

 private:
  struct Refused;
  // A line that is to be sent; `attempts` have failed in a way that it may be the reason of.
  struct Waiting {
    InputLine line;
    int attempts = 0;
    LineRefusals refusals;
    std::shared_ptr<const Refused> refused;  // the last time, once there are any refusals
  };
  struct Sent {
    Waiting waiting;
    std::string custom_id;
    base::Instant at{};  // when it was sent
  };
  struct Refused {
    std::string custom_id;
    HttpAnswer answer;
  };

  // Whether a line goes next that was never sent, and not one of those that are sent again.
  bool NextIsNew() const;
  bool MaySend() const;
  size_t under_way() const { return sent_.size() - free_.size(); }
  absl::Status FillSlots();
  absl::Status SendNext();
  absl::Status TakeArrivals(base::Instant deadline);
  absl::Status Take(BatchSender::Arrival arrival);
  absl::Status TakeSuspect(const Sent& sent, const HttpAnswer& answer);
  absl::Status TakeRefused(Sent sent, HttpAnswer answer);
  // Ends those that are left where all of them were refused while others were answered. False where
  // there are any others, or none.
  absl::StatusOr<bool> EndRefused();
  absl::Status Finish(const Sent& sent, const HttpAnswer& answer);
  absl::Status Write(const InputLine& line, bool failed, const std::string& text);
  void TellFailure(const InputLine& line, const std::string& why);
  absl::Status Tick();
  const InputLine* Peek() const;
  void UpdateProgress();

  const BatchRunOptions options_;
  const BatchInput* const input_;
  const std::vector<InputLine> lines_;
  BatchSender* const sender_;
  BatchJournal* const journal_;
  ProgressLine* const view_;
  const base::SteadyClock clock_;
  const base::Instant started_;
  const int64_t unlimited_;  // tokens that an answer without a limit counts as

  SendWindow window_;
  size_t next_ = 0;  // of lines_
  std::deque<Waiting> again_;
  bool resent_last_ = false;  // the line that was sent last came out of it
  std::vector<size_t> free_;  // slots
  std::vector<Sent> sent_;    // by slot
  int64_t bytes_under_way_ = 0;
  int64_t answers_ = 0;     // of the service, in this run
  int refused_in_row_ = 0;  // lines, since the last answer or the last new line
  int told_ = 0;            // failures
  base::Instant synced_;
  BatchProgress progress_;
};

}  // namespace baton::batch
