#include "tools/batch/send_window.h"

#include <algorithm>
#include <chrono>

namespace baton::batch {
namespace {

constexpr base::Duration kFirstPause = std::chrono::milliseconds(250);
constexpr base::Duration kLongestPause = std::chrono::seconds(15);

}  // namespace

void SendWindow::OnAnswer() {
  now_ = std::min(most_, now_ + 1);
  backoff_ = {};
  trouble_since_.reset();
}

void SendWindow::OnRefused(base::Instant now, size_t under_way,
                           std::optional<base::Duration> retry_after) {
  now_ = std::clamp<size_t>(under_way, 1, now_);
  Pause(now, retry_after);
}

void SendWindow::OnAway(base::Instant now) {
  now_ = 1;
  Pause(now, std::nullopt);
}

void SendWindow::OnEnded(base::Instant now, base::Instant sent) {
  if (trouble_since_ && now - sent > patience_) trouble_since_ = now;
}

void SendWindow::OnTooSlow(base::Instant now, base::Instant sent) {
  // What was under way then was among those that were too many, and counts once.
  if (halved_at_ && sent <= *halved_at_) return;
  halved_at_ = now;
  now_ = std::max<size_t>(1, now_ / 2);
}

void SendWindow::Pause(base::Instant now, std::optional<base::Duration> wanted) {
  if (!trouble_since_) trouble_since_ = now;
  if (wanted) {
    not_before_ = std::max(not_before_, now + *wanted);
  } else if (now >= not_before_) {  // what was sent together fails together, and counts once
    backoff_ = std::clamp(2 * backoff_, kFirstPause, kLongestPause);
    not_before_ = now + backoff_;
  }
}

}  // namespace baton::batch
