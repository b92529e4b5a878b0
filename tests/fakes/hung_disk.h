#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <string>

#include "gtest/gtest.h"

namespace baton::testing {

// A file that takes nothing: every write into it waits, as on a disk that hangs, until it comes
// back. It is a pipe that is full.
class HungDisk final {
 public:
  explicit HungDisk(const std::filesystem::path& path) {
    EXPECT_EQ(mkfifo(path.c_str(), 0600), 0) << path;
    fd_ = open(path.c_str(), O_RDWR | O_NONBLOCK | O_CLOEXEC);
    EXPECT_GE(fd_, 0) << path;
    const std::string filling(4096, '\n');
    while (write(fd_, filling.data(), filling.size()) > 0) {
    }
  }
  ~HungDisk() { close(fd_); }
  HungDisk(const HungDisk&) = delete;
  HungDisk& operator=(const HungDisk&) = delete;

  // Takes everything that was written by now; the disk is back while this is called. The number of
  // rows that were taken so far.
  int64_t TakeRows() {
    char buffer[4096];
    for (ssize_t n; (n = read(fd_, buffer, sizeof(buffer))) > 0;) {
      rows_ += std::count(buffer, buffer + n, '{');
    }
    return rows_;
  }

 private:
  int fd_ = -1;
  int64_t rows_ = 0;
};

}  // namespace baton::testing
