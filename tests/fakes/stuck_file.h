#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>

#include "common/base/check.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {

// A file on a disk that does not answer: who reads it waits until Release. Then it is empty.
class StuckFile final {
 public:
  StuckFile() { BATON_CHECK(mkfifo(path().c_str(), 0600) == 0) << path(); }
  ~StuckFile() { Release(); }
  StuckFile(const StuckFile&) = delete;
  StuckFile& operator=(const StuckFile&) = delete;

  std::string path() const { return folder_ / "file"; }
  // Until somebody reads; false when nobody does.
  bool WaitForReader() {
    return fd_ >= 0 || Eventually([this] {
             fd_ = open(path().c_str(), O_WRONLY | O_NONBLOCK | O_CLOEXEC);
             return fd_ >= 0;
           });
  }
  void Release() {
    std::filesystem::rename(folder_.Write("empty", ""), path());
    if (fd_ >= 0) close(fd_);
    fd_ = -1;
  }

 private:
  const ScratchFolder folder_;
  int fd_ = -1;
};

}  // namespace baton
