#include "tools/batch/batch_part.h"

#include <cstdlib>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton::batch {
namespace {

using ::testing::HasSubstr;

TEST(BatchPart, IsReadAndWritten) {
  const auto part = ParsePart("2/8");
  ASSERT_TRUE(part.ok()) << part.status();
  EXPECT_EQ(PartText(*part), "2/8");
  EXPECT_TRUE(part->Has(2) && part->Has(10));
  EXPECT_FALSE(part->Has(0) || part->Has(3));
  EXPECT_TRUE(BatchPart().Has(5));
}

TEST(BatchPart, AJobSaysWhichOneItIs) {
  unsetenv("JOB_COMPLETION_INDEX");
  EXPECT_THAT(ParsePart("index/4").status().ToString(),
              HasSubstr("JOB_COMPLETION_INDEX is not set"));
  setenv("JOB_COMPLETION_INDEX", "3", 1);
  EXPECT_EQ(ParsePart("index/4")->index, 3);
  EXPECT_THAT(ParsePart("index/3").status().ToString(), HasSubstr("part '3' of '3'"));
  unsetenv("JOB_COMPLETION_INDEX");
}

TEST(BatchPart, OtherTextIsRefused) {
  for (const char* text :
       {"", "1", "/", "1/", "/2", "2/2", "-1/2", "a/2", "1/b", "0/0", "0/100001", "1/2/3"}) {
    EXPECT_TRUE(absl::IsInvalidArgument(ParsePart(text).status())) << text;
  }
}

}  // namespace
}  // namespace baton::batch
