#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>

#include "common/base/check.h"
#include "tests/fakes/eventually.h"

namespace baton {

// A file on a disk that does not answer: who reads it waits until Release. Then it is empty.
class StuckFile final {
 public:
  StuckFile() {
    std::string pattern = std::filesystem::temp_directory_path() / "baton_stuck_XXXXXX";
    BATON_CHECK(mkdtemp(pattern.data()) != nullptr) << pattern;
    dir_ = pattern;
    BATON_CHECK(mkfifo(path().c_str(), 0600) == 0) << path();
  }
  ~StuckFile() {
    Release();
    std::filesystem::remove_all(dir_);
  }
  StuckFile(const StuckFile&) = delete;
  StuckFile& operator=(const StuckFile&) = delete;

  std::string path() const { return dir_ + "/file"; }
  // Until somebody reads; false when nobody does.
  bool WaitForReader() {
    return fd_ >= 0 || Eventually([this] {
             fd_ = open(path().c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
             return fd_ >= 0;
           });
  }
  void Release() {
    const std::string empty = dir_ + "/empty";
    std::ofstream{empty};
    std::filesystem::rename(empty, path());
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  std::string dir_;
  int fd_ = -1;
};

}  // namespace baton
