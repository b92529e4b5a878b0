#include "common/config/standard_files.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "gtest/gtest.h"

namespace baton {
namespace {

bool IsNullDevice(int number) {
  struct stat found {
  }, null{};
  return fstat(number, &found) == 0 && stat("/dev/null", &null) == 0 && S_ISCHR(found.st_mode) &&
         found.st_rdev == null.st_rdev;
}

// By programs that are started.
bool IsKept(int number) { return (fcntl(number, F_GETFD) & FD_CLOEXEC) == 0; }

// In a process of its own: the number of the next file that it opens once these are closed, or -1
// where one of them is not the null device.
int NextFileWithout(std::initializer_list<int> closed) {
  for (const int number : closed) close(number);
  OpenStandardFiles();
  for (const int number : closed) {
    if (!IsNullDevice(number) || !IsKept(number)) return -1;
  }
  return open("/dev/zero", O_RDONLY);
}

TEST(StandardFiles, ThoseThatAreClosedLeadNowhere) {
  for (const auto& closed : {std::initializer_list<int>{0}, {1}, {2}, {0, 2}, {1, 2}, {0, 1, 2}}) {
    EXPECT_EXIT(_exit(NextFileWithout(closed) > STDERR_FILENO ? 0 : 1),
                ::testing::ExitedWithCode(0), "");
  }
}

TEST(StandardFiles, WhatALibraryOpenedMeanwhileIsNone) {
  EXPECT_EXIT(
      {
        for (const int number : {0, 1}) close(number);
        // The lowest free number is 0.
        if (open("/dev/zero", O_RDWR | O_CLOEXEC) != 0) _exit(1);
        OpenStandardFiles();
        const bool good = IsNullDevice(0) && IsKept(0) && IsNullDevice(1) && IsKept(1);
        _exit(good && open("/dev/zero", O_RDONLY) > STDERR_FILENO ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(StandardFiles, ThoseThatAreOpenStay) {
  EXPECT_EXIT(
      {
        const int zero = open("/dev/zero", O_RDWR);
        for (const int number : {0, 1, 2}) dup2(zero, number);
        OpenStandardFiles();
        _exit(IsNullDevice(0) || IsNullDevice(1) || IsNullDevice(2) ? 1 : 0);
      },
      ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace baton
