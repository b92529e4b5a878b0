#include "tools/serve/default_load_cache.h"

#include <filesystem>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/log_text.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  const LogText log;
  EXPECT_EQ(DefaultLoadCache(nullptr, nullptr), "");
  EXPECT_THAT(log.str(), AllOf(HasSubstr("HOME"), HasSubstr("--load-cache")));
}

TEST(DefaultLoadCache, AFolderThatCannotBeMadeIsNone) {
  const ScratchFolder folder;
  folder.Write("caches", "a file");
  const LogText log;
  EXPECT_EQ(DefaultLoadCache((folder / "caches").c_str(), nullptr), "");
  EXPECT_THAT(log.str(), AllOf(HasSubstr(folder / "caches"), HasSubstr("--load-cache")));
}

}  // namespace
}  // namespace baton
