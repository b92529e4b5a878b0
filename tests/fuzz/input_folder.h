#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "common/base/check.h"

namespace baton::fuzz {

// A folder of this process, for parsers that are given a path. It goes at the process's end.
class InputFolder final {
 public:
  explicit InputFolder(std::string_view target)
      : path_(std::filesystem::temp_directory_path() /
              (std::string(target) + "-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(path_);
  }
  ~InputFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  InputFolder(const InputFolder&) = delete;
  InputFolder& operator=(const InputFolder&) = delete;

  std::string path() const { return path_.string(); }
  // Makes `name` a file of these bytes, and returns its path.
  std::string Write(std::string_view name, std::string_view bytes) const {
    const std::filesystem::path file = path_ / name;
    std::ofstream out(file, std::ios::binary | std::ios::trunc);
    out.write(bytes.data(), static_cast<std::streamsize>(bytes.size()));
    BATON_CHECK(out.flush().good()) << file;
    return file.string();
  }

 private:
  const std::filesystem::path path_;
};

}  // namespace baton::fuzz
