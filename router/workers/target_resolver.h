#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"

namespace baton {

// Keeps the addresses behind targets up to date. The system's resolver may take half a minute for
// one name and cannot be interrupted. So names are looked up side by side, each by a thread of its
// own that nobody waits for, and a dead name server delays neither other names nor the end of the
// process. At most one lookup per target is under way. IP addresses need none. Thread-safe.
class TargetResolver final {
 public:
  // As ResolveTarget; may block, and may still do when this object is gone.
  using Lookup = std::function<absl::StatusOr<std::vector<std::string>>(const std::string&)>;
  struct Answer {
    std::vector<std::string> addresses;  // of the last lookup that found some
    absl::Status status;                 // why they may be out of date
  };

  // Begins a lookup of every name, and does so again `every` so often.
  TargetResolver(const std::vector<std::string>& targets, base::Duration every,
                 const base::Clock* clock, const Lookup& lookup);
  ~TargetResolver() { Stop(); }
  TargetResolver(const TargetResolver&) = delete;
  TargetResolver& operator=(const TargetResolver&) = delete;

  // Does not wait. A name that was never answered has no addresses, and is no error until it should
  // have been looked up again.
  Answer Latest(const std::string& target) const;
  // Waits until answers may have changed, and begins lookups that are due. False after Stop. For
  // one thread.
  bool Wait();
  // Lookups that are under way are left alone.
  void Stop();

 private:
  struct State;
  static void Begin(const std::shared_ptr<State>& state, const std::string& target);

  const base::Duration every_;
  const base::Clock* const clock_;
  const std::shared_ptr<State> state_;  // shared with the threads of lookups
  base::Instant next_;                  // of Wait
};

}  // namespace baton
