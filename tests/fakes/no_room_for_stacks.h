#pragma once

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <fstream>

namespace baton {

// While it lives, the process gets no room for the stack of a thread that compiles a guide, as
// where a limit on processes is reached. What is small is still to be had.
class NoRoomForStacks final {
 public:
  NoRoomForStacks() {
    constexpr rlim_t kRoom = 24 << 20;
    rlim_t pages = 0;
    std::ifstream("/proc/self/statm") >> pages;
    getrlimit(RLIMIT_AS, &before_);
    rlimit narrow = before_;
    narrow.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kRoom;
    EXPECT_EQ(setrlimit(RLIMIT_AS, &narrow), 0);
  }
  ~NoRoomForStacks() { setrlimit(RLIMIT_AS, &before_); }
  NoRoomForStacks(const NoRoomForStacks&) = delete;
  NoRoomForStacks& operator=(const NoRoomForStacks&) = delete;

 private:
  rlimit before_{};
};

}  // namespace baton
