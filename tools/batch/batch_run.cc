#include "tools/batch/batch_run.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "tools/batch/answer_line.h"
#include "tools/batch/batch_order.h"

namespace baton::batch {
namespace {

constexpr base::Duration kLookEvery = std::chrono::milliseconds(100);
constexpr base::Duration kSyncEvery = std::chrono::seconds(5);
// One line that breaks whoever computes it must not be sent for ever; a service that is restarted
// while it is under way a few times is not its fault.
constexpr int kAttempts = 5;
// Refusals without an answer to anybody, before a new line goes ahead of those that were refused.
constexpr int kRefusedInRow = 8;
// A refusal with more is not kept until the others have ended.
constexpr size_t kMostRefusalBytes = size_t{64} << 10;
constexpr int64_t kMaxBytesUnderWay = int64_t{256} << 20;
constexpr int kFailuresTold = 10;
// Before answers are looked after again.
constexpr int kLinesAtOnce = 256;

std::string TextOfStatus(const absl::Status& status) {
  return {status.message().data(), status.message().size()};
}

std::string_view ErrorCodeOf(const HttpAnswer& answer) {
  if (answer.too_large) return "answer_too_large";
  if (answer.status != 0) return "invalid_answer";
  return answer.timed_out ? "timeout" : "connection_broken";
}

}  // namespace

BatchRun::BatchRun(BatchRunOptions options, const BatchInput* input, std::vector<InputLine> lines,
                   BatchSender* sender, BatchJournal* journal, ProgressLine* view)
    : options_(std::move(options)),
      input_(input),
      lines_(std::move(lines)),
      sender_(sender),
      journal_(journal),
      view_(view),
      started_(clock_.Now()),
      unlimited_(LongestLimit(lines_)),
      window_(options_.concurrency, options_.patience),
      sent_(options_.concurrency),
      synced_(started_) {
  for (size_t slot = 0; slot < options_.concurrency; ++slot) free_.push_back(slot);
  for (const InputLine& line : lines_) progress_.cost_left += ExpectedCost(line, unlimited_);
  progress_.lines = journal->done() + static_cast<int64_t>(lines_.size());
  UpdateProgress();
}

bool BatchRun::complete() const { return journal_->done() == progress_.lines; }

absl::Status BatchRun::Run() {
  absl::Status status;
  while (status.ok() && !complete() && !*options_.stop) {
    status = FillSlots();
    if (status.ok()) {
      const base::Instant now = clock_.Now();
      base::Instant until = now + kLookEvery;
      if (window_.not_before() > now) until = std::min(until, window_.not_before());
      status = TakeArrivals(complete() || MaySend() ? now : until);
    }
    if (status.ok()) status = Tick();
  }
  // Answers that came meanwhile are not thrown away.
  if (status.ok() && sender_ != nullptr) status = TakeArrivals(clock_.Now());
  UpdateProgress();
  status.Update(journal_->Sync());
  return status;
}

// What was refused goes again before others are begun. But lines that the service never takes must
// not keep those out: new ones take turns with lines under suspicion, and one goes ahead now and
// then while nothing is answered, without which nothing can be suspected.
bool BatchRun::NextIsNew() const {
  if (again_.empty()) return true;
  if (next_ == lines_.size()) return false;
  return refused_in_row_ >= kRefusedInRow || (resent_last_ && again_.front().refusals.any());
}

const InputLine* BatchRun::Peek() const {
  if (!NextIsNew()) return &again_.front().line;
  return next_ < lines_.size() ? &lines_[next_] : nullptr;
}

bool BatchRun::MaySend() const {
  const InputLine* const line = Peek();
  return line != nullptr && !free_.empty() && window_.May(under_way(), clock_.Now()) &&
         (under_way() == 0 || bytes_under_way_ + line->bytes <= kMaxBytesUnderWay);
}

absl::Status BatchRun::FillSlots() {
  for (int lines = 0; lines < kLinesAtOnce && MaySend(); ++lines) {
    BATON_RETURN_IF_ERROR(SendNext());
  }
  return absl::OkStatus();
}

absl::Status BatchRun::SendNext() {
  Waiting waiting;
  resent_last_ = !NextIsNew();
  if (!resent_last_) {
    waiting = {.line = lines_[next_++], .refusals = LineRefusals(answers_), .refused = nullptr};
    refused_in_row_ = 0;
  } else {
    waiting = again_.front();
    again_.pop_front();
  }
  BATON_ASSIGN_OR_RETURN(BatchLine parsed, input_->Read(waiting.line));
  if (!parsed.wrong.ok()) {
    const std::string why = TextOfStatus(parsed.wrong);
    TellFailure(waiting.line, why);
    return Write(waiting.line, /*failed=*/true,
                 ErrorLine({.number = waiting.line.number, .custom_id = parsed.custom_id},
                           "invalid_line", why));
  }
  const size_t slot = free_.back();
  free_.pop_back();
  bytes_under_way_ += waiting.line.bytes;
  sent_[slot] = {.waiting = waiting, .custom_id = std::move(parsed.custom_id), .at = clock_.Now()};
  sender_->Send(slot, parsed.url, parsed.body.dump());
  return absl::OkStatus();
}

absl::Status BatchRun::TakeArrivals(base::Instant deadline) {
  while (auto arrival = sender_->Next(deadline)) {
    BATON_RETURN_IF_ERROR(Take(std::move(*arrival)));
    deadline = clock_.Now();  // what else is there, without waiting
  }
  return absl::OkStatus();
}

absl::Status BatchRun::Take(BatchSender::Arrival arrival) {
  Sent sent = std::move(sent_[arrival.slot]);
  free_.push_back(arrival.slot);
  bytes_under_way_ -= sent.waiting.line.bytes;
  const HttpAnswer& answer = arrival.answer;
  if (answer.aborted) return absl::OkStatus();
  const base::Instant now = clock_.Now();
  switch (VerdictOf(answer)) {
    case Verdict::kFinal:
      window_.OnAnswer();
      ++answers_;
      refused_in_row_ = 0;
      progress_.trouble.clear();
      return Finish(sent, answer);
    case Verdict::kRefused:
      return TakeRefused(std::move(sent), std::move(arrival.answer));
    case Verdict::kAway:
      window_.OnAway(now);
      break;
    case Verdict::kSuspect:
      window_.OnEnded(now, sent.at);
      return TakeSuspect(sent, answer);
    case Verdict::kUnwanted:
      return absl::UnauthenticatedError(
          absl::StrCat("the service takes no line from us (", Describe(answer),
                       "); set OPENAI_API_KEY, or --api-key-file, to a key that it takes"));
  }
  progress_.trouble = Describe(answer);
  again_.push_back(sent.waiting);
  return absl::OkStatus();
}

absl::Status BatchRun::TakeRefused(Sent sent, HttpAnswer answer) {
  const size_t others = under_way();
  window_.OnRefused(clock_.Now(), others, answer.retry_after);
  progress_.trouble = Describe(answer);
  Waiting& waiting = sent.waiting;
  waiting.refusals.Count(answers_, others);
  ++refused_in_row_;
  if (waiting.refusals.enough()) return Finish(sent, answer);
  if (waiting.refusals.any() && answer.body.size() <= kMostRefusalBytes) {
    waiting.refused = std::make_shared<const Refused>(
        Refused{.custom_id = std::move(sent.custom_id), .answer = std::move(answer)});
  }
  again_.push_back(std::move(waiting));
  return absl::OkStatus();
}

absl::StatusOr<bool> BatchRun::EndRefused() {
  const bool all = std::ranges::all_of(
      again_, [](const Waiting& waiting) { return waiting.refused != nullptr; });
  const bool only = next_ == lines_.size() && under_way() == 0;
  if (!all || !only || again_.empty()) return false;
  for (const Waiting& waiting : std::exchange(again_, {})) {
    const Refused& refused = *waiting.refused;
    BATON_RETURN_IF_ERROR(
        Finish({.waiting = waiting, .custom_id = refused.custom_id}, refused.answer));
  }
  return true;
}

absl::Status BatchRun::TakeSuspect(const Sent& sent, const HttpAnswer& answer) {
  if (answer.status != 0 || answer.timed_out) {
    window_.OnTooSlow(clock_.Now(), sent.at);
  } else {
    window_.OnAway(clock_.Now());
    progress_.trouble = Describe(answer);
  }
  if (sent.waiting.attempts + 1 >= kAttempts) return Finish(sent, answer);
  again_.push_back(sent.waiting);
  ++again_.back().attempts;
  return absl::OkStatus();
}

absl::Status BatchRun::Finish(const Sent& sent, const HttpAnswer& answer) {
  constexpr long kOk = 200;
  const LineName name{.number = sent.waiting.line.number, .custom_id = sent.custom_id};
  const std::optional<int64_t> tokens =
      answer.status != 0 ? TokensOfBody(answer.body) : std::nullopt;
  const bool failed = !tokens || answer.status != kOk;
  if (failed) TellFailure(sent.waiting.line, Describe(answer));
  progress_.tokens += failed ? 0 : *tokens;
  if (tokens) {
    return Write(sent.waiting.line, failed,
                 ResponseLine(name, answer.status, answer.request_id, answer.body));
  }
  const std::string why = answer.too_large     ? "the answer is larger than 64 MiB"
                          : answer.status != 0 ? Describe(answer) + " with a body that is no JSON"
                                               : Describe(answer);
  return Write(sent.waiting.line, failed, ErrorLine(name, ErrorCodeOf(answer), why));
}

absl::Status BatchRun::Write(const InputLine& line, bool failed, const std::string& text) {
  BATON_RETURN_IF_ERROR(journal_->Add(line.key, failed, text));
  const double cost = ExpectedCost(line, unlimited_);
  progress_.cost_done += cost;
  progress_.cost_left -= cost;
  ++progress_.done_now;
  return absl::OkStatus();
}

void BatchRun::TellFailure(const InputLine& line, const std::string& why) {
  if (++told_ > kFailuresTold) return;
  view_->Say(absl::StrCat("line ", line.number, " failed: ", why));
  if (told_ == kFailuresTold)
    view_->Say("more that fail are counted, and stand in the output only");
}

void BatchRun::UpdateProgress() {
  progress_.elapsed_s = base::Seconds(clock_.Now() - started_);
  progress_.done = journal_->done();
  progress_.failed = journal_->failed();
  progress_.under_way = static_cast<int64_t>(under_way());
}

absl::Status BatchRun::Tick() {
  const base::Instant now = clock_.Now();
  UpdateProgress();
  view_->Show(progress_);
  BATON_RETURN_IF_ERROR(options_.look());
  if (window_.LostPatience(now, under_way())) {
    BATON_ASSIGN_OR_RETURN(const bool ended, EndRefused());
    if (ended) return absl::OkStatus();
    // What is to be done stands last, behind whatever the service says.
    return absl::UnavailableError(absl::StrCat("the service has taken no line for ",
                                               TimeText(base::Seconds(options_.patience)), " (",
                                               progress_.trouble, "); ", kGoOn));
  }
  if (now - synced_ < kSyncEvery) return absl::OkStatus();
  synced_ = now;
  return journal_->Sync();
}

}  // namespace baton::batch
