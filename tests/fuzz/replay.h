#pragma once

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include "gtest/gtest.h"

namespace baton::fuzz {

// Gives every file of a target's corpus to it. Each is named first, because what goes wrong ends
// the process.
inline void Replay(const std::string& name, void (*target)(std::string_view)) {
  const std::string folder = std::string(BATON_SOURCE_DIR) + "/tests/fuzz/corpus/" + name;
  std::vector<std::filesystem::path> paths;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    paths.push_back(entry.path());
  }
  EXPECT_FALSE(paths.empty()) << folder << " has no files";
  std::sort(paths.begin(), paths.end());
  for (const std::filesystem::path& path : paths) {
    std::cerr << path.string() << '\n';
    std::ifstream file(path, std::ios::binary);
    // Not a string, behind whose end a read may go unnoticed.
    const std::vector<char> bytes{std::istreambuf_iterator<char>(file), {}};
    target({bytes.data(), bytes.size()});
  }
  target("");
}

}  // namespace baton::fuzz
