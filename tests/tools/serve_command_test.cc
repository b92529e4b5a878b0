#include <poll.h>
#include <signal.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>

#include "common/base/clock.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "nlohmann/json.hpp"
#include "tests/fakes/bind_alone.h"
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

  // Reads both outputs, or all but the log, until `done` or 60 s.
  void ReadUntil(const std::function<bool()>& done) {
    const auto deadline = clock_.Now() + std::chrono::seconds(60);
    while (!done() && clock_.Now() < deadline) {
      pollfd fds[] = {{serve_->out(), POLLIN, 0}, {reads_log_ ? serve_->err() : -1, POLLIN, 0}};
      poll(fds, 2, 20);
      if (!exit_) exit_ = serve_->Reap();  // before what it wrote last is read
      bool out_end = false, err_end = false;
      for (const auto& line : out_reader_.Read(serve_->out(), &out_end)) out_ += line + "\n";
      if (!reads_log_) continue;
      for (const auto& line : err_reader_.Read(serve_->err(), &err_end)) err_ += line + "\n";
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

  int Count(const std::string& text) const {
    int found = 0;
    for (size_t at = err_.find(text); at != std::string::npos; at = err_.find(text, at + 1)) {
      ++found;
    }
    return found;
  }
  // Of the first life.
  pid_t PidOf(const std::string& name) const {
    const size_t line = err_.find(name + " is ready");
    const size_t pid = err_.find("pid ", line);
    return pid == std::string::npos ? 0 : std::atoi(err_.c_str() + pid + 4);
  }

  const ScratchFolder folder_;
  const base::SteadyClock clock_;
  std::optional<ChildProcess> serve_;
  LineReader out_reader_, err_reader_;
  std::string out_, err_;
  std::optional<int> exit_;
  std::map<std::string, std::vector<int>> ports_of_;
  bool reads_log_ = true;
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

TEST_F(ServeCommandTest, WhatDiesComesBackAtItsPortsWhichNobodyGetsMeanwhile) {
  Start({"m", "--admin-port", "0", "--port", "0"});
  const auto ready = WaitReady();
  ASSERT_TRUE(ready.is_object()) << err_;
  for (const std::string name : {"decode-0", "router"}) {
    const size_t begin = err_.find("[" + name + "] baton-");
    ASSERT_NE(begin, std::string::npos) << err_;
    const std::string line = err_.substr(begin, err_.find('\n', begin) - begin);
    for (const char* flag : {"--port=", "--admin-port=", "--http-port="}) {
      // Of a flag that is given twice the last one counts.
      const size_t at = line.rfind(flag);
      if (at == std::string::npos) continue;
      const int port = std::atoi(line.c_str() + at + std::strlen(flag));
      EXPECT_NE(port, 0) << line;
      ports_of_[name].push_back(port);
    }
  }
  EXPECT_EQ(ports_of_["decode-0"].size(), 2u) << err_;
  EXPECT_EQ(ports_of_["router"].size(), 3u) << err_;
  kill(ready["workers"][1]["pid"].get<pid_t>(), SIGKILL);
  const pid_t router = PidOf("router");
  ASSERT_GT(router, 0) << err_;
  kill(router, SIGKILL);
  for (const auto& [name, ports] : ports_of_) {
    ReadUntil([&] { return Count(name + " ended with") == 1; });
    for (const int port : ports) EXPECT_EQ(BindAlone(INADDR_LOOPBACK, port), EADDRINUSE) << port;
  }
  for (const auto& [name, ports] : ports_of_) {
    ReadUntil([&] { return Count(name + " is ready") == 2; });
    ASSERT_EQ(Count(name + " is ready"), 2) << err_;
    const size_t first = err_.find(name + " is ready"), last = err_.rfind(name + " is ready");
    const auto addresses = [&](size_t at) { return err_.substr(at, err_.find(", pid", at) - at); };
    EXPECT_EQ(addresses(first), addresses(last));
  }
  serve_->Signal(SIGTERM);
  EXPECT_EQ(WaitExit(), 0);
}

TEST_F(ServeCommandTest, StartsAndEndsThoughNobodyReadsItsLog) {
  reads_log_ = false;
  Start({"loud", "--admin-port", "0", "--port", "0"});
  ASSERT_TRUE(WaitReady().is_object());
  serve_->Signal(SIGTERM);
  EXPECT_EQ(WaitExit(), 0);
}

TEST_F(ServeCommandTest, TellsHowMuchOfTheLogIsMissingWhenItIsReadAgain) {
  reads_log_ = false;
  Start({"loud", "--admin-port", "0", "--port", "0"});
  ASSERT_TRUE(WaitReady().is_object());
  reads_log_ = true;
  ReadUntil([&] { return Count("lines of the log are missing here") == 1; });
  EXPECT_EQ(Count("lines of the log are missing here"), 1);
  serve_->Signal(SIGTERM);
  EXPECT_EQ(WaitExit(), 0);
  EXPECT_THAT(err_, HasSubstr("stopping: the router first"));
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
