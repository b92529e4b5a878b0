#include "tools/planner/child_runs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

namespace baton::planner {
namespace {

using ::testing::HasSubstr;

class ScratchFolderTest : public ::testing::Test {
 protected:
  ScratchFolderTest() {
    if (const char* const was = getenv("TMPDIR")) was_ = was;
  }
  ~ScratchFolderTest() override {
    was_.empty() ? unsetenv("TMPDIR") : setenv("TMPDIR", was_.c_str(), 1);
  }

  std::string was_;
};

TEST_F(ScratchFolderTest, IsRemovedWithIt) {
  std::filesystem::path folder;
  {
    const auto made = ScratchFolder::Make();
    ASSERT_TRUE(made.ok()) << made.status();
    folder = std::filesystem::path(made->File("x")).parent_path();
    EXPECT_TRUE(std::filesystem::is_directory(folder));
  }
  EXPECT_FALSE(std::filesystem::exists(folder));
}

TEST_F(ScratchFolderTest, AFolderThatIsNotThereIsNamed) {
  setenv("TMPDIR", "/nowhere", 1);
  const auto made = ScratchFolder::Make();
  EXPECT_TRUE(absl::IsResourceExhausted(made.status())) << made.status();
  EXPECT_THAT(made.status().ToString(), HasSubstr("TMPDIR"));
}

}  // namespace
}  // namespace baton::planner
