#pragma once

#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"

namespace baton::batch {

// A folder for the files of one test.
class BatchFiles : public ::testing::Test {
 protected:
  BatchFiles() { std::filesystem::create_directories(folder_); }
  ~BatchFiles() override { std::filesystem::remove_all(folder_); }

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }
  std::string Write(const std::string& name, const std::string& text) const {
    std::ofstream(Path(name), std::ios::binary) << text;
    return Path(name);
  }
  std::string Content(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  const std::string folder_ = ::testing::TempDir() + "batch_" + std::to_string(getpid()) +
                              ::testing::UnitTest::GetInstance()->current_test_info()->name();
};

// A line of a batch that asks for a completion.
inline std::string RequestLine(const std::string& custom_id, int max_tokens = 4) {
  return R"({"custom_id":")" + custom_id +
         R"(","method":"POST","url":"/v1/completions","body":{"prompt":"x","max_tokens":)" +
         std::to_string(max_tokens) + "}}\n";
}

}  // namespace baton::batch
