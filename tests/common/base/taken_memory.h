#pragma once

#include <gtest/gtest.h>
#include <malloc.h>

#include <fstream>
#include <functional>
#include <string>

namespace baton {

// A line of /proc/self/status.
inline long StatusKib(const std::string& name) {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word && word != name) {
  }
  long kib = 0;
  status >> kib;
  return kib;
}

// The memory that `body` takes on top of what is in use, while it takes most.
inline long TakenKib(const std::function<void()>& body) {
  malloc_trim(0);                                 // what was freed would hide as much
  std::ofstream("/proc/self/clear_refs") << "5";  // the peak is then what there is now
  const long before = StatusKib("VmHWM:");
  EXPECT_GT(before, 0);
  body();
  return StatusKib("VmHWM:") - before;
}

}  // namespace baton
