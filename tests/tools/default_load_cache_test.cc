#include "tools/serve/default_load_cache.h"

#include <filesystem>
#include <string>

#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

TEST(DefaultLoadCache, IsInTheUsersFolderOfCaches) {
  const ScratchFolder folder;
  const std::string home = folder / "home";
  const std::string caches = folder / "caches";
  EXPECT_EQ(DefaultLoadCache(caches.c_str(), home.c_str()), caches + "/baton");
  EXPECT_TRUE(std::filesystem::is_directory(caches + "/baton"));
  EXPECT_FALSE(std::filesystem::exists(home));
  EXPECT_EQ(DefaultLoadCache(nullptr, home.c_str()), home + "/.cache/baton");
  EXPECT_TRUE(std::filesystem::is_directory(home + "/.cache/baton"));
}

TEST(DefaultLoadCache, RelativeFoldersDoNotCount) {
  const ScratchFolder folder;
  const std::string home = folder / "home";
  for (const char* relative : {"", "caches", "./caches"}) {
    EXPECT_EQ(DefaultLoadCache(relative, home.c_str()), home + "/.cache/baton") << relative;
    EXPECT_EQ(DefaultLoadCache(relative, relative), "") << relative;
  }
  EXPECT_EQ(DefaultLoadCache(nullptr, nullptr), "");
}

TEST(DefaultLoadCache, AFolderThatCannotBeMadeIsNone) {
  const ScratchFolder folder;
  folder.Write("caches", "a file");
  EXPECT_EQ(DefaultLoadCache((folder / "caches").c_str(), nullptr), "");
}

}  // namespace
}  // namespace baton
