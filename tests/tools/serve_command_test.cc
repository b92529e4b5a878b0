#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>

#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/scratch_folder.h"
#include "tools/serve/child_process.h"
#include "tools/serve/line_reader.h"

// Runs the real `baton serve` over fake servers (tests/fakes/fake_server_main.cc).
namespace baton {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

class ServeCommandTest : public ::testing::Test {
 protected:
  ServeCommandTest() {
    for (const char* name : {"baton-router", "baton-prefill", "baton-decode"}) {
      std::filesystem::create_symlink(BATON_FAKE_SERVER, folder_ / name);
    }
  }

  void Start(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "serve");
    auto child = ChildProcess::Start({.program = BATON_BINARY,
                                      .arguments = arguments,
                                      .environment = {"BATON_BIN_DIR=" + folder_.path()}});
    ASSERT_TRUE(child.ok()) << child.status();
    serve_.emplace(*std::move(child));
  }

  // Reads both outputs until `done` or 60 s.
  void ReadUntil(const std::function<bool()>& done) {
    const auto deadline = clock_.Now() + std::chrono::seconds(60);
    while (!done() && clock_.Now() < deadline) {
      pollfd fds[] = {{serve_->out(), POLLIN, 0}, {serve_->err(), POLLIN, 0}};
      poll(fds, 2, 20);
      bool out_end = false, err_end = false;
      for (const auto& line : out_reader_.Read(serve_->out(), &out_end)) out_ += line + "\n";
      for (const auto& line : err_reader_.Read(serve_->err(), &err_end)) err_ += line + "\n";
      if (!exit_) exit_ = serve_->Reap();
    }
  }
  nlohmann::json WaitReady() {
    ReadUntil([&] { return out_.ends_with("\n") || exit_; });
    return nlohmann::json::parse(out_, nullptr, false);
  }
  int WaitExit() {
    ReadUntil([&] { return exit_.has_value(); });
    return exit_.value_or(-1);
  }

  const ScratchFolder folder_;
  const base::SteadyClock clock_;
  std::optional<ChildProcess> serve_;
  LineReader out_reader_, err_reader_;
  std::string out_, err_;
  std::optional<int> exit_;
};

TEST_F(ServeCommandTest, StartsEverythingAndPrintsOneReadyLine) {
  Start({"m", "--prefill", "1", "--decode", "2", "--admin-port", "0", "--port", "0"});
  const auto ready = WaitReady();
  ASSERT_TRUE(ready.is_object()) << out_ << err_;
  EXPECT_EQ(ready["ready"], true);
  EXPECT_THAT(ready["grpc"].get<std::string>(), Not(HasSubstr("//")));
  ASSERT_EQ(ready["workers"].size(), 3u);
  EXPECT_EQ(ready["workers"][0]["role"], "prefill");
  EXPECT_EQ(ready["workers"][2]["role"], "decode");
  EXPECT_GT(ready["workers"][1]["pid"], 0);
  const std::string decode = ready["workers"][1]["grpc"].get<std::string>() + "," +
                             ready["workers"][2]["grpc"].get<std::string>();
  serve_->Signal(SIGTERM);
  EXPECT_EQ(WaitExit(), 0) << err_;
  EXPECT_THAT(err_, HasSubstr("[router] baton-router m --decode-workers=" + decode));
  EXPECT_EQ(std::count(out_.begin(), out_.end(), '\n'), 1);
  for (const auto& worker : ready["workers"]) {
    EXPECT_EQ(kill(worker["pid"].get<pid_t>(), 0), -1) << "nothing is left behind";
  }
}

TEST_F(ServeCommandTest, TellsTheAdvertisedAddressAndKeepsItFromItsProcesses) {
  Start({"m", "--advertise", "baton.example:7000", "--admin-port", "0", "--port", "0"});
  const auto ready = WaitReady();
  ASSERT_TRUE(ready.is_object()) << out_ << err_;
  EXPECT_EQ(ready["grpc"], "baton.example:7000");
  EXPECT_THAT(ready["workers"][0]["grpc"].get<std::string>(), HasSubstr("127.0.0.1:"));
  serve_->Signal(SIGTERM);
  EXPECT_EQ(WaitExit(), 0) << err_;
  EXPECT_THAT(err_, Not(HasSubstr("--advertise")));
}

TEST_F(ServeCommandTest, UnifiedModeHasDecodeWorkersOnly) {
  Start({"m", "--mode", "unified", "--decode", "1", "--admin-port", "0"});
  const auto ready = WaitReady();
  ASSERT_TRUE(ready.is_object()) << err_;
  ASSERT_EQ(ready["workers"].size(), 1u);
  EXPECT_EQ(ready["workers"][0]["role"], "decode");
  serve_->Signal(SIGINT);
  EXPECT_EQ(WaitExit(), 0);
  EXPECT_THAT(err_, Not(HasSubstr("--prefill-workers")));
}

TEST_F(ServeCommandTest, ADeadWorkerComesBackAtItsAddress) {
  Start({"m", "--admin-port", "0"});
  const auto ready = WaitReady();
  ASSERT_TRUE(ready.is_object()) << err_;
  const std::string grpc = ready["workers"][1]["grpc"];
  const std::string admin = ready["workers"][1]["admin"];
  kill(ready["workers"][1]["pid"].get<pid_t>(), SIGKILL);
  const auto count = [&] {
    size_t found = 0;
    for (size_t at = err_.find("decode-0 is ready"); at != std::string::npos;
         at = err_.find("decode-0 is ready", at + 1)) {
      ++found;
    }
    return found;
  };
  ReadUntil([&] { return count() == 2; });
  EXPECT_EQ(count(), 2u) << err_;
  const std::string again = err_.substr(err_.rfind("decode-0 is ready"));
  EXPECT_THAT(again, HasSubstr("gRPC " + grpc + ", admin " + admin));
  serve_->Signal(SIGTERM);
  EXPECT_EQ(WaitExit(), 0);
}

TEST_F(ServeCommandTest, AWorkerThatCannotLoadTheModelDecidesTheExitCode) {
  Start({"broken"});
  EXPECT_EQ(WaitExit(), 3);
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_THAT(err_, HasSubstr("baton serve: fatal: cannot start"));
}

TEST_F(ServeCommandTest, NoWorkerLoadsAModelForARouterThatCannotStart) {
  Start({"full"});
  EXPECT_EQ(WaitExit(), 4);
  EXPECT_THAT(out_, IsEmpty());
  EXPECT_THAT(err_, HasSubstr("cannot start router"));
  EXPECT_THAT(err_, Not(HasSubstr("baton-decode")));
  EXPECT_THAT(err_, Not(HasSubstr("baton-prefill")));
}

TEST_F(ServeCommandTest, WrongUsageExits2) {
  Start({"m", "--decode", "none"});
  EXPECT_EQ(WaitExit(), 2);
  EXPECT_THAT(err_, HasSubstr("--decode: found 'none'"));
}

}  // namespace
}  // namespace baton
