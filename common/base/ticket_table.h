#pragma once

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "common/base/mutex.h"
#include "common/base/ticket.h"

namespace baton {

// What the valid tickets of a worker open. Find looks at every entry, so that the time it takes
// says nothing about any secret. Thread-safe.
template <typename T>
class TicketTable final {
 public:
  void Add(const Ticket& ticket, std::shared_ptr<T> opens) {
    base::MutexLock lock(&mutex_);
    entries_.emplace_back(ticket, std::move(opens));
  }

  // The ticket opens nothing from now on.
  void Remove(const Ticket& ticket) {
    std::shared_ptr<T> dropped;  // destroyed without the lock
    base::MutexLock lock(&mutex_);
    const auto found = std::ranges::find_if(
        entries_, [&](const auto& entry) { return SameTicket(entry.first, ticket); });
    if (found == entries_.end()) return;
    dropped = std::move(found->second);
    entries_.erase(found);
  }

  // Null for a ticket that opens nothing.
  std::shared_ptr<T> Find(const Ticket& ticket) const {
    base::MutexLock lock(&mutex_);
    std::shared_ptr<T> found;
    for (const auto& [of, opens] : entries_) {
      if (SameTicket(of, ticket)) found = opens;
    }
    return found;
  }

  size_t size() const {
    base::MutexLock lock(&mutex_);
    return entries_.size();
  }

 private:
  mutable base::Mutex mutex_;
  // Shared with those who use what a ticket opened.
  std::vector<std::pair<Ticket, std::shared_ptr<T>>> entries_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace baton
