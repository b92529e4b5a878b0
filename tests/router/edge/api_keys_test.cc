#include "router/edge/api_keys.h"

#include <sys/stat.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <thread>

#include "common/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

std::string MessageOf(std::string_view text) {
  return std::string(ApiKeys::Parse(text).status().message());
}

TEST(ApiKeys, KnowsWhoseAKeyIs) {
  const auto keys = ApiKeys::Parse("# teams\n\nred:abc\r\n  blue:x:y\nred:next\n");
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(keys->size(), 3u);
  EXPECT_EQ(keys->NameOf("abc"), "red");
  EXPECT_EQ(keys->NameOf("next"), "red");
  EXPECT_EQ(keys->NameOf("x:y"), "blue");
  EXPECT_EQ(keys->NameOf("ABC"), std::nullopt);
  EXPECT_EQ(keys->NameOf(""), std::nullopt);
}

TEST(ApiKeys, ErrorsNameTheLineAndNoKey) {
  EXPECT_THAT(MessageOf("red:abc\nsecret"), AllOf(HasSubstr("line 2 "), Not(HasSubstr("secret"))));
  EXPECT_THAT(MessageOf(":secret"), AllOf(HasSubstr("line 1 "), Not(HasSubstr("secret"))));
  EXPECT_THAT(MessageOf("router:secret"), HasSubstr("name no role"));
  EXPECT_THAT(MessageOf("red:"), HasSubstr("line 1 has no such key"));
  EXPECT_THAT(MessageOf("red:a secret"), AllOf(HasSubstr("line 1 "), Not(HasSubstr("secret"))));
  EXPECT_THAT(MessageOf("red:" + std::string(257, 'x')), HasSubstr("line 1 "));
  EXPECT_THAT(MessageOf("red:same\nblue:same"),
              AllOf(HasSubstr("line 2 has the key of a line above"), Not(HasSubstr("same"))));
  // The wrong way round.
  EXPECT_THAT(MessageOf("secret1:red\nsecret2:red"),
              AllOf(HasSubstr("line 2 "), Not(HasSubstr("secret"))));
  EXPECT_THAT(MessageOf("# nobody\n"), HasSubstr("no line holds a key"));
}

class ApiKeyFileTest : public testing::Test {
 protected:
  void Write(const std::string& text) {
    std::filesystem::rename(folder_.Write("new", text), folder_ / "keys");
  }
  auto Open() { return ApiKeyFile::Open(folder_ / "keys", std::chrono::milliseconds(5)); }

  const ScratchFolder folder_;
};

TEST_F(ApiKeyFileTest, ReadsTheAuthorization) {
  Write("red:abc\n");
  const auto keys = Open();
  ASSERT_TRUE(keys.ok()) << keys.status();
  EXPECT_EQ(*(*keys)->NameOf({"Bearer abc"}), "red");
  EXPECT_EQ(*(*keys)->NameOf({"bearer  abc "}), "red");
  EXPECT_EQ((*keys)->refusals(), 0);
  for (const std::vector<std::string>& wrong : {std::vector<std::string>{},
                                                {"Bearer"},
                                                {"Bearer "},
                                                {"Basic abc"},
                                                {"abc"},
                                                {"Bearer abd"},
                                                {"Bearer abc", "Bearer abc"}}) {
    const absl::Status refused = (*keys)->NameOf(wrong).status();
    EXPECT_EQ(refused.code(), absl::StatusCode::kUnauthenticated);
    EXPECT_EQ(ReasonOf(refused), Reason::kInvalidApiKey);
  }
  EXPECT_EQ((*keys)->refusals(), 7);
}

TEST_F(ApiKeyFileTest, TakesNewKeysAndKeepsTheLastGoodOnes) {
  Write("red:abc\n");
  const auto keys = Open();
  ASSERT_TRUE(keys.ok()) << keys.status();
  Write("red:next\n");
  EXPECT_TRUE(Eventually([&] { return (*keys)->NameOf({"Bearer next"}).ok(); }));
  EXPECT_FALSE((*keys)->NameOf({"Bearer abc"}).ok());
  Write("red next\n");
  std::filesystem::remove(folder_ / "keys");
  Write("nothing\n");
  Write("red:next\nblue:b\n");
  EXPECT_TRUE(Eventually([&] {
    EXPECT_TRUE((*keys)->NameOf({"Bearer next"}).ok());
    return (*keys)->NameOf({"Bearer b"}).ok();
  }));
}

TEST_F(ApiKeyFileTest, HalfAFileIsNotTaken) {
  Write("red:abc\n");
  const auto keys = ApiKeyFile::Open(folder_ / "keys", std::chrono::hours(1));
  ASSERT_TRUE(keys.ok()) << keys.status();
  Write("red:abc\nblue:sec");  // by somebody who writes slowly
  (*keys)->Look();
  EXPECT_FALSE((*keys)->NameOf({"Bearer sec"}).ok());
  Write("red:abc\nblue:secret\n");
  (*keys)->Look();
  EXPECT_FALSE((*keys)->NameOf({"Bearer sec"}).ok());
  (*keys)->Look();
  EXPECT_FALSE((*keys)->NameOf({"Bearer sec"}).ok());
  EXPECT_TRUE((*keys)->NameOf({"Bearer secret"}).ok());
}

TEST_F(ApiKeyFileTest, APipeIsReadOnceAndHoldsNobodyUp) {
  ASSERT_EQ(mkfifo((folder_ / "keys").c_str(), 0600), 0);
  std::thread writer([this] { std::ofstream(folder_ / "keys") << "red:abc\n"; });
  {
    const auto keys = Open();
    writer.join();
    ASSERT_TRUE(keys.ok()) << keys.status();
    std::this_thread::sleep_for(std::chrono::milliseconds(50));  // when a file would be read again
    EXPECT_TRUE((*keys)->NameOf({"Bearer abc"}).ok());
  }
}

TEST_F(ApiKeyFileTest, AFolderIsNoFile) {
  std::filesystem::create_directory(folder_ / "keys");
  EXPECT_THAT(std::string(Open().status().message()), HasSubstr("cannot be read"));
}

TEST_F(ApiKeyFileTest, AFileThatCannotServeIsRefused) {
  EXPECT_THAT(std::string(Open().status().message()), HasSubstr("cannot be read"));
  Write(std::string((4 << 20) + 1, '#'));
  EXPECT_THAT(std::string(Open().status().message()), HasSubstr("more than 4194304 bytes"));
  Write("red\n");
  EXPECT_THAT(std::string(Open().status().message()),
              AllOf(HasSubstr("--api-keys "), HasSubstr("line 1 has no colon")));
}

}  // namespace
}  // namespace baton
