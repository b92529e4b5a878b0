#pragma once

#include <chrono>
#include <thread>

namespace baton {

// Waits until `done()` is true, for what other threads or processes do and no condition variable
// tells. False when it is not after `patience`: a test then fails, so the time only has to be
// longer than a busy machine needs.
template <typename Condition>
[[nodiscard]] bool Eventually(
    Condition done, std::chrono::steady_clock::duration patience = std::chrono::seconds(10)) {
  const auto deadline = std::chrono::steady_clock::now() + patience;
  while (!done()) {
    if (std::chrono::steady_clock::now() >= deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

}  // namespace baton
