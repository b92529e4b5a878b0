#pragma once

#include <gtest/gtest.h>

#include <chrono>
#include <utility>
#include <variant>
#include <vector>

#include "common/base/mutex.h"
#include "common/transport/pair/pair_protocol.h"

namespace baton {

// What a device told, to be read one after the other. Thread-safe.
class DeviceEvents final {
 public:
  void Add(DeviceEvent event) {
    base::MutexLock lock(&mutex_);
    events_.push_back(std::move(event));
    changed_.NotifyAll();
  }
  // The next event of that type; others are skipped.
  template <typename Event>
  Event Next() {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
    base::MutexLock lock(&mutex_);
    while (true) {
      for (; seen_ < events_.size(); ++seen_) {
        if (const auto* event = std::get_if<Event>(&events_[seen_])) {
          ++seen_;
          return *event;
        }
      }
      if (!changed_.WaitUntil(&mutex_, deadline)) {
        ADD_FAILURE() << "no such event";
        return {};
      }
    }
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  std::vector<DeviceEvent> events_ ABSL_GUARDED_BY(mutex_);
  size_t seen_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace baton
