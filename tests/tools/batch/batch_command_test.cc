#include <atomic>
#include <map>
#include <mutex>
#include <random>
#include <thread>

#include "gmock/gmock.h"
#include "httplib.h"
#include "nlohmann/json.hpp"
#include "tests/tools/batch/batch_files.h"
#include "tests/tools/run_tool.h"

// `baton batch` against a service that answers as it is told.
namespace baton::batch {
namespace {

using Json = nlohmann::json;
using ::testing::HasSubstr;

class BatchCommand : public BatchFiles {
 protected:
  using Handler = std::function<void(const httplib::Request& request, httplib::Response& response)>;

  BatchCommand() {
    // A proxy is asked for the whole of the URL.
    server_.Get(R"((http://service\.invalid(:80)?)?/v1/models)",
                [this](const httplib::Request&, httplib::Response& response) {
                  response.status = models_status_;
                });
    server_.Post(R"((http://service\.invalid(:80)?)?/v1/completions)",
                 [this](const httplib::Request& request, httplib::Response& response) {
                   ++requests_;
                   handler_(request, response);
                 });
    port_ = server_.bind_to_any_port("127.0.0.1");
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    while (!server_.is_running()) std::this_thread::yield();
  }
  ~BatchCommand() override {
    server_.stop();
    thread_.join();
  }

  std::string address() const { return "127.0.0.1:" + std::to_string(port_); }

  // Runs the file "in" against the server.
  ToolRun Run(const Arguments& more = {}) {
    Arguments arguments = {"batch", Path("in"), Path("out"), "--server", address()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return RunTool(arguments);
  }
  // Answers by custom_id.
  std::map<std::string, Json> Answers() const {
    std::map<std::string, Json> answers;
    std::istringstream lines(Content("out"));
    for (std::string line; std::getline(lines, line);) {
      const Json json = Json::parse(line);
      const bool is_new = answers.emplace(json["custom_id"].get<std::string>(), json).second;
      EXPECT_TRUE(is_new) << line;
    }
    return answers;
  }

  static void Answer(httplib::Response& response, const std::string& body = R"({"ok":true})",
                     int status = 200) {
    response.status = status;
    response.set_header("x-request-id", "req-7");
    response.set_content(body, "application/json");
  }

  Handler handler_ = [](const httplib::Request&, httplib::Response& response) { Answer(response); };
  std::atomic<int> requests_ = 0;
  std::atomic<int> models_status_ = 200;

 private:
  httplib::Server server_;
  int port_ = 0;
  std::thread thread_;
};

TEST_F(BatchCommand, AnswersAreThoseOfTheService) {
  Write("in", RequestLine("a") + RequestLine("b"));
  handler_ = [](const httplib::Request& request, httplib::Response& response) {
    EXPECT_EQ(request.body, R"({"prompt":"x","max_tokens":4})");
    EXPECT_EQ(request.get_header_value("Content-Type"), "application/json");
    EXPECT_EQ(request.get_header_value("Accept"), "application/json");
    EXPECT_EQ(request.get_header_value("baton-tenant"), "red");
    Answer(response, R"({"usage":{"completion_tokens":2}, "x":1.50})");
  };
  const ToolRun run = Run({"--as-tenant", "red"});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("2 of 2 lines done, 0 failed"));
  EXPECT_THAT(Content("out"), HasSubstr(R"("custom_id":"a","response":{"status_code":200,)"
                                        R"("request_id":"req-7","body":{"usage":)"
                                        R"({"completion_tokens":2}, "x":1.50}},"error":null})"));
  EXPECT_EQ(Answers().size(), 2u);
  // Nothing is left to ask, and then nobody is asked.
  EXPECT_EQ(RunTool({"batch", Path("in"), Path("out"), "--server", "127.0.0.1:1"}).exit, 0);
  EXPECT_EQ(requests_, 2);
}

TEST_F(BatchCommand, ErrorsAreOfTheirLinesOnly) {
  Write("in", RequestLine("good") + RequestLine("400", 400) + RequestLine("500", 500) +
                  RequestLine("html", 1) + R"({"custom_id":"wrong"})" + "\n");
  handler_ = [](const httplib::Request& request, httplib::Response& response) {
    const int wanted = Json::parse(request.body)["max_tokens"].get<int>();
    if (wanted == 1) {
      Answer(response, "<html>");
    } else if (wanted > 4) {
      Answer(response, R"({"error":{"message":"as told"}})", wanted);
    } else {
      Answer(response);
    }
  };
  const ToolRun run = Run();
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.out, HasSubstr("5 of 5 lines done, 4 failed"));
  EXPECT_THAT(run.err, HasSubstr("line 2 failed: HTTP 400: as told"));
  auto answers = Answers();
  EXPECT_EQ(answers["good"]["response"]["status_code"], 200);
  EXPECT_EQ(answers["400"]["response"]["status_code"], 400);
  EXPECT_EQ(answers["400"]["response"]["body"]["error"]["message"], "as told");
  EXPECT_EQ(answers["500"]["response"]["status_code"], 500);
  EXPECT_EQ(answers["html"]["error"]["code"], "invalid_answer");
  EXPECT_EQ(answers["wrong"]["error"]["code"], "invalid_line");
  EXPECT_EQ(requests_, 4);
  // They stay as they are, until they are asked for again.
  EXPECT_EQ(Run().exit, 1);
  EXPECT_EQ(requests_, 4);
  handler_ = [](const httplib::Request&, httplib::Response& response) { Answer(response); };
  const ToolRun again = Run({"--retry-failed"});
  EXPECT_EQ(again.exit, 1);
  EXPECT_THAT(again.out, HasSubstr("5 of 5 lines done, 1 failed"));
  EXPECT_THAT(again.err, HasSubstr("4 answers that are errors are dropped"));
  EXPECT_EQ(requests_, 7);
}

TEST_F(BatchCommand, WhatIsRefusedIsSentAgain) {
  Write("in", RequestLine("a") + RequestLine("b") + RequestLine("c"));
  std::atomic<int> refused = 0;
  handler_ = [&](const httplib::Request&, httplib::Response& response) {
    if (refused++ < 7) {
      response.set_header("retry-after-ms", "10");
      Answer(response, R"({"error":{"message":"full"}})", refused % 2 == 0 ? 429 : 503);
    } else {
      Answer(response);
    }
  };
  const ToolRun run = Run();
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_EQ(Answers().size(), 3u);
  EXPECT_EQ(requests_, 10);
}

TEST_F(BatchCommand, AServiceThatNamesNoTimeIsAskedAfterPauses) {
  Write("in", RequestLine("a"));
  for (const char* none : {"0", "-1", "nan", "Wed, 21 Oct 2026 07:28:00 GMT"}) {
    requests_ = 0;
    handler_ = [&](const httplib::Request&, httplib::Response& response) {
      response.set_header("retry-after", none);
      Answer(response, R"({"error":{"message":"full"}})", 429);
    };
    EXPECT_EQ(Run({"--patience", "100ms"}).exit, 1);
    EXPECT_LE(requests_, 2) << none;
  }
}

TEST_F(BatchCommand, ALineThatBreaksTheConnectionEachTimeIsGivenUp) {
  Write("in", RequestLine("a") + RequestLine("poison", 99));
  handler_ = [](const httplib::Request& request, httplib::Response& response) {
    if (Json::parse(request.body)["max_tokens"] == 99) {
      // Ends the connection before the first byte of the body that it announced.
      response.set_content_provider(10, "application/json",
                                    [](size_t, size_t, httplib::DataSink&) { return false; });
    } else {
      Answer(response);
    }
  };
  const ToolRun run = Run();
  EXPECT_EQ(run.exit, 1);
  auto answers = Answers();
  EXPECT_EQ(answers["a"]["response"]["status_code"], 200);
  EXPECT_EQ(answers["poison"]["error"]["code"], "connection_broken");
  EXPECT_EQ(requests_, 6);
}

// Refuses lines with max_tokens 99 and answers all others.
void RefuseSome(const httplib::Request& request, httplib::Response& response) {
  const bool refused = Json::parse(request.body)["max_tokens"] == 99;
  response.status = refused ? 429 : 200;
  if (refused) response.set_header("retry-after-ms", "1");
  response.set_content(refused ? R"({"error":{"message":"too large"}})" : R"({"ok":true})",
                       "application/json");
}

TEST_F(BatchCommand, LinesThatAreRefusedWhileOthersAreAnsweredAreGivenUp) {
  // More of them than lines may be under way, and all of them before the others.
  std::string lines;
  for (int i = 0; i < 6; ++i) lines += RequestLine("bad" + std::to_string(i), 99);
  for (int i = 0; i < 120; ++i) lines += RequestLine("good" + std::to_string(i));
  Write("in", lines);
  handler_ = RefuseSome;
  for (const char* concurrency : {"1", "4"}) {
    Write("out", "");
    requests_ = 0;
    // Nothing waits for the end of the patience, which each answer begins anew.
    const ToolRun run = Run({"--concurrency", concurrency, "--patience", "30s"});
    EXPECT_EQ(run.exit, 1) << run.err;
    EXPECT_THAT(run.out, HasSubstr("126 of 126 lines done, 6 failed"));
    EXPECT_THAT(run.err, HasSubstr("line 1 failed: HTTP 429: too large"));
    auto answers = Answers();
    EXPECT_EQ(answers["bad3"]["response"]["status_code"], 429);
    EXPECT_EQ(answers["bad3"]["response"]["body"]["error"]["message"], "too large");
    EXPECT_EQ(answers["good119"]["response"]["status_code"], 200);
    EXPECT_LT(requests_, 1000);
  }
}

TEST_F(BatchCommand, LinesThatAreRefusedToTheEndAreGivenUpWhenThePatienceIs) {
  Write("in", RequestLine("bad", 99) + RequestLine("good"));
  handler_ = RefuseSome;
  const ToolRun run = Run({"--patience", "200ms"});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.out, HasSubstr("2 of 2 lines done, 1 failed"));
  EXPECT_EQ(Answers()["bad"]["response"]["status_code"], 429);
}

TEST_F(BatchCommand, AFullServiceGetsEveryLineInTheEnd) {
  std::string lines;
  for (int i = 0; i < 60; ++i) lines += RequestLine("line" + std::to_string(i));
  Write("in", lines);
  // Other clients leave a place at one of three moments.
  std::mutex mutex;
  std::mt19937 dice(1);
  handler_ = [&](const httplib::Request&, httplib::Response& response) {
    const std::lock_guard lock(mutex);
    const bool refused = dice() % 3 != 0;
    if (refused) response.set_header("retry-after-ms", "1");
    Answer(response, refused ? R"({"error":{"message":"full"}})" : R"({"ok":true})",
           refused ? 429 : 200);
  };
  const ToolRun run = Run({"--concurrency", "4"});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_EQ(Answers().size(), 60u);
}

TEST_F(BatchCommand, AnotherModelsKeyEndsIt) {
  Write("in", RequestLine("a"));
  handler_ = [](const httplib::Request&, httplib::Response& response) {
    Answer(response, R"({"error":{"message":"who are you"}})", 401);
  };
  const ToolRun run = Run();
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.err, HasSubstr("who are you"));
  EXPECT_THAT(run.err, HasSubstr("OPENAI_API_KEY"));
  EXPECT_THAT(run.out, HasSubstr("0 of 1 lines done"));
  EXPECT_THAT(run.out, HasSubstr("the same command goes on"));
  EXPECT_EQ(Content("out"), "");
  models_status_ = 401;
  EXPECT_THAT(Run().err, HasSubstr("OPENAI_API_KEY"));
}

TEST_F(BatchCommand, AServiceElsewhereIsAskedByTheProxyOfTheEnvironment) {
  Write("in", RequestLine("a"));
  std::string path;
  handler_ = [&](const httplib::Request& request, httplib::Response& response) {
    path = request.path;
    Answer(response);
  };
  for (const char* name : {"no_proxy", "NO_PROXY"}) unsetenv(name);
  setenv("http_proxy", ("http://" + address()).c_str(), 1);
  const ToolRun far =
      RunTool({"batch", Path("in"), Path("out"), "--server", "http://service.invalid"});
  EXPECT_EQ(far.exit, 0) << far.err;
  EXPECT_THAT(path, ::testing::StartsWith("http://service.invalid"));
  Write("out", "");
  models_status_ = 407;
  const ToolRun unknown =
      RunTool({"batch", Path("in"), Path("out"), "--server", "http://service.invalid"});
  EXPECT_EQ(unknown.exit, 1);
  EXPECT_THAT(unknown.err, HasSubstr("answered HTTP 407. Try: put a user and a password"));
  models_status_ = 200;
  // But not one on this machine, whoever the proxy is.
  setenv("http_proxy", "http://127.0.0.1:1", 1);
  const ToolRun near = Run();
  unsetenv("http_proxy");
  EXPECT_EQ(near.exit, 0) << near.err;
  EXPECT_EQ(path, "/v1/completions");
}

// However late a refusal comes.
TEST_F(BatchCommand, PatienceHasAnEnd) {
  Write("in", RequestLine("a"));
  handler_ = [](const httplib::Request&, httplib::Response& response) {
    std::this_thread::sleep_for(std::chrono::milliseconds(150));
    response.set_header("Retry-After", "0.01");
    Answer(response, R"({"error":{"message":"closing; come back"}})", 503);
  };
  const ToolRun run = Run({"--patience", "100ms"});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.err, HasSubstr("the service has taken no line for 1 s (HTTP 503: closing; come "
                                 "back). Try: the same command again"));
  EXPECT_EQ(Content("out"), "");
}

TEST_F(BatchCommand, LinesThatAreComputedAreWaitedForLongerThanThePatience) {
  Write("in", RequestLine("a") + RequestLine("b"));
  std::atomic<bool> refused = false;
  handler_ = [&](const httplib::Request&, httplib::Response& response) {
    if (!refused.exchange(true)) {
      Answer(response, R"({"error":{"message":"full"}})", 429);
      return;
    }
    // Longer than the patience, which is over while this is computed.
    std::this_thread::sleep_for(std::chrono::milliseconds(600));
    Answer(response);
  };
  const ToolRun run = Run({"--patience", "100ms"});
  EXPECT_EQ(run.exit, 0) << run.err;
  EXPECT_EQ(Answers().size(), 2u);
}

TEST_F(BatchCommand, NothingIsSentForWhatIsTypedWrong) {
  Write("in", RequestLine("a"));
  Write("twice", RequestLine("a") + RequestLine("a"));
  Write("notes", "mine\n");
  Write("others", R"({"id":"line-1","custom_id":"z","response":null,"error":null})"
                  "\n");
  const auto error = [&](const Arguments& arguments) {
    Arguments all = {"batch"};
    all.insert(all.end(), arguments.begin(), arguments.end());
    const ToolRun run = RunTool(all);
    EXPECT_EQ(run.exit, 2) << run.err;
    return run.err;
  };
  const std::string in = Path("in"), out = Path("out"), server = "--server=" + address();
  EXPECT_THAT(error({in}), HasSubstr("OUT"));
  EXPECT_THAT(error({in, in, server}), HasSubstr("IN and OUT"));
  EXPECT_THAT(error({Path("none"), out, server}), HasSubstr("No such file"));
  EXPECT_THAT(error({Path("twice"), out, server}), HasSubstr("'a' stands in line 1 already"));
  EXPECT_FALSE(std::filesystem::exists(out));
  EXPECT_THAT(error({in, Path("notes"), server}), HasSubstr("no answer of a batch"));
  EXPECT_THAT(error({in, Path("others"), server}), HasSubstr("1 answers to lines that"));
  EXPECT_THAT(error({in, out, "DIR", server}), HasSubstr("--server and MODEL"));
  EXPECT_THAT(error({in, out, "--threads", "2"}), HasSubstr("--threads without MODEL"));
  EXPECT_THAT(error({in, out, "D\xff"}), HasSubstr("'D\\xff', from its path: it is not UTF-8"));
  EXPECT_THAT(error({in, out, server, "--part", "2/2"}), HasSubstr("--part '2/2'"));
  EXPECT_THAT(error({in, out, "--server", "nowhere"}), HasSubstr("--server"));
  EXPECT_THAT(error({in, out, "--server", "ftp://h:1"}), HasSubstr("or http:// or https://"));
  const std::string clear = "--server=http://" + address();
  EXPECT_THAT(error({in, out, clear, "--tls-ca", in}), HasSubstr("in clear text"));
  EXPECT_EQ(requests_, 0);
}

// Nor is anything sent in clear text.
TEST_F(BatchCommand, FilesForTlsAreForEveryAddressWithoutAScheme) {
  Write("in", RequestLine("a"));
  Write("ca.pem", "");
  const ToolRun run = Run({"--tls-ca", Path("ca.pem")});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.err, HasSubstr("no server at https://" + address()));
  EXPECT_EQ(requests_, 0);
}

TEST_F(BatchCommand, WithoutAServiceItSaysSo) {
  Write("in", RequestLine("a"));
  const ToolRun run = RunTool({"batch", Path("in"), Path("out"), "--server", "127.0.0.1:1"});
  EXPECT_EQ(run.exit, 1);
  EXPECT_THAT(run.err, HasSubstr("no server at http://127.0.0.1:1/v1"));
}

}  // namespace
}  // namespace baton::batch
