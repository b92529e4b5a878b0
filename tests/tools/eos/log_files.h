#pragma once

#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

#include "common/eos/zstd_file.h"
#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {

// A test with a folder of its own for logs.
class LogFilesTest : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }
  // Writes a file and returns its path.
  std::string File(const std::string& name, const std::string& text) const {
    return folder_.Write(name, text);
  }
  void Append(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary | std::ios::app) << text;
  }
  // As the writer of a log does with a part: FILE.zst stands in the place of the file at `path`.
  void Compress(const std::string& path) const {
    const std::string whole = path.starts_with("/") ? path : Path(path);
    ASSERT_TRUE(CompressFile(whole, whole + ".zst", [] { return false; }).ok());
    std::filesystem::remove(whole);
  }
  static std::string Content(const std::string& path) {
    std::ifstream file(path, std::ios::binary);
    std::stringstream content;
    content << file.rdbuf();
    return content.str();
  }

  const ScratchFolder folder_;
};

}  // namespace baton
