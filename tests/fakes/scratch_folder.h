#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>
#include <system_error>

#include "common/base/check.h"

namespace baton {

// A folder of a test's own, removed with everything in it when the object goes. Its name is made
// for this object alone, so what a killed test left behind is never read, and the same test may
// run twice at once. All files that tests write lie in one.
class ScratchFolder final {
 public:
  ScratchFolder() {
    std::string name = std::filesystem::temp_directory_path() / "baton-test-XXXXXX";
    BATON_CHECK(mkdtemp(name.data()) != nullptr) << name << ": cannot be made";
    path_ = name;
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  const std::string& path() const { return path_; }
  // Path of something inside; it is not made.
  std::string operator/(std::string_view name) const { return path_ + "/" + std::string(name); }
  // Makes `name` a file of these bytes, and returns its path.
  std::string Write(std::string_view name, std::string_view bytes) const {
    std::string file = *this / name;
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out << bytes;
    BATON_CHECK(out.flush().good()) << file << ": cannot be written";
    return file;
  }

 private:
  std::string path_;
};

}  // namespace baton
