#pragma once

#include <fstream>
#include <iterator>
#include <string>

#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton::batch {

// A folder for the files of one test.
class BatchFiles : public ::testing::Test {
 protected:
  std::string Path(const std::string& name) const { return folder_ / name; }
  std::string Write(const std::string& name, const std::string& text) const {
    return folder_.Write(name, text);
  }
  std::string Content(const std::string& name) const {
    std::ifstream file(Path(name), std::ios::binary);
    return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
  }

 private:
  const ScratchFolder folder_;
};

// A line of a batch that asks for a completion.
inline std::string RequestLine(const std::string& custom_id, int max_tokens = 4) {
  return R"({"custom_id":")" + custom_id +
         R"(","method":"POST","url":"/v1/completions","body":{"prompt":"x","max_tokens":)" +
         std::to_string(max_tokens) + "}}\n";
}

}  // namespace baton::batch
