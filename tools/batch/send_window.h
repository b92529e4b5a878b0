#pragma once

#include <cstddef>
#include <optional>

#include "common/base/clock.h"

namespace baton::batch {

// How many requests may be under way, and from when on, by what the service says: fewer where it is
// full, one at a time where nobody answers, more with each answer. Not thread-safe.
class SendWindow final {
 public:
  // `most` at once. `patience` is how long it may go on while the service refuses or is away, and
  // has nothing under way that it took.
  SendWindow(size_t most, base::Duration patience) : most_(most), patience_(patience), now_(most) {}

  bool May(size_t under_way, base::Instant now) const {
    return under_way < now_ && now >= not_before_;
  }
  // When the pause is over; in the past where there is none.
  base::Instant not_before() const { return not_before_; }
  size_t size() const { return now_; }

  void OnAnswer();
  // `under_way` are those that it did not refuse; `retry_after` is when it wants to be asked again.
  void OnRefused(base::Instant now, size_t under_way, std::optional<base::Duration> retry_after);
  void OnAway(base::Instant now);
  // A line that was sent at `sent`, and may have been taken, has ended without an answer. Where
  // that took longer than the patience lasts, the patience begins anew.
  void OnEnded(base::Instant now, base::Instant sent);
  // A request that was sent at `sent` took longer than it may, so there were too many.
  void OnTooSlow(base::Instant now, base::Instant sent);

  // What is under way may be computed still, and its answer would end the trouble.
  bool LostPatience(base::Instant now, size_t under_way) const {
    return under_way == 0 && trouble_since_ && now - *trouble_since_ > patience_;
  }

 private:
  void Pause(base::Instant now, std::optional<base::Duration> wanted);

  const size_t most_;
  const base::Duration patience_;
  size_t now_;
  base::Instant not_before_{};
  base::Duration backoff_{};
  std::optional<base::Instant> trouble_since_;
  std::optional<base::Instant> halved_at_;
};

}  // namespace baton::batch
