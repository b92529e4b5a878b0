#include "common/rpc/server.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/commands.h"

namespace baton {
namespace {

using ::testing::HasSubstr;

int Probe(const Arguments& arguments, std::string* out) {
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  const int exit = ProbeCommand({arguments});
  *out = ::testing::internal::GetCapturedStdout() + ::testing::internal::GetCapturedStderr();
  return exit;
}

TEST(ProbeCommand, TellsWhetherAServerServes) {
  auto server = RpcServer::Start({}, {});
  ASSERT_TRUE(server.ok()) << server.status();
  std::string out;
  (*server)->SetServing({"a.B"}, false);
  EXPECT_EQ(Probe({(*server)->address()}, &out), 1);
  EXPECT_EQ(out, "NOT_SERVING\n");
  (*server)->SetServing({"a.B"}, true);
  EXPECT_EQ(Probe({(*server)->address()}, &out), 0);
  EXPECT_EQ(out, "SERVING\n");
  EXPECT_EQ(Probe({(*server)->address(), "--service", "a.B"}, &out), 0);
  EXPECT_EQ(Probe({(*server)->address(), "--service", "no.Such"}, &out), 1);
  EXPECT_THAT(out, HasSubstr("cannot probe"));
}

TEST(ProbeCommand, NobodyThereExits1) {
  std::string out;
  EXPECT_EQ(Probe({"127.0.0.1:1", "--timeout", "2s"}, &out), 1);
  EXPECT_THAT(out, HasSubstr("cannot probe 127.0.0.1:1"));
}

TEST(ProbeCommand, WrongUsageExits2) {
  std::string out;
  EXPECT_EQ(Probe({}, &out), 2);
  EXPECT_EQ(Probe({"a", "b"}, &out), 2);
}

}  // namespace
}  // namespace baton
