#include "common/base/sha256.h"

#include <filesystem>
#include <string>

#include "gtest/gtest.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

// FIPS 180-4's examples.
TEST(Sha256Test, GivesTheDigestsOfTheStandard) {
  EXPECT_EQ(Sha256Hex(""), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(Sha256Hex("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(Sha256Hex(std::string(1000000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, DigestsAreTheSameOrNot) {
  EXPECT_TRUE(IsSameDigest(Sha256Hex("a"), Sha256Hex("a")));
  EXPECT_FALSE(IsSameDigest(Sha256Hex("a"), Sha256Hex("b")));
  EXPECT_FALSE(IsSameDigest(Sha256Hex("a"), ""));
}

TEST(Sha256Test, OfAFileIsThatOfItsContent) {
  const ScratchFolder folder;
  const std::string path = folder / "file";
  for (const size_t bytes : {size_t{0}, size_t{3}, size_t{1} << 20, (size_t{1} << 20) + 1}) {
    const std::string content(bytes, 'a');
    folder.Write("file", content);
    const auto sum = Sha256OfFile(path);
    ASSERT_TRUE(sum.ok()) << sum.status();
    EXPECT_EQ(*sum, Sha256Hex(content)) << bytes;
  }
  std::filesystem::remove(path);
  EXPECT_TRUE(absl::IsNotFound(Sha256OfFile(path).status()));
}

}  // namespace
}  // namespace baton
