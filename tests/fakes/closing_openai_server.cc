#include "tests/fakes/closing_openai_server.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <string_view>

#include "absl/strings/str_cat.h"

namespace baton::testing {
namespace {

constexpr std::string_view kLength = "Content-Length: ";

// One request with its body; "" when the peer ends the connection instead.
std::string ReadRequest(int connection) {
  std::string bytes;
  std::array<char, 4096> buffer;
  for (;;) {
    if (const size_t head = bytes.find("\r\n\r\n"); head != std::string::npos) {
      const size_t length = bytes.find(kLength);
      const size_t body =
          length < head ? std::strtoul(bytes.c_str() + length + kLength.size(), nullptr, 10) : 0;
      if (bytes.size() >= head + 4 + body) return bytes;
    }
    const ssize_t got = recv(connection, buffer.data(), buffer.size(), 0);
    if (got <= 0) return "";
    bytes.append(buffer.data(), static_cast<size_t>(got));
  }
}

std::string AnswerTo(const std::string& request) {
  const bool models = request.rfind("GET ", 0) == 0;
  const std::string body =
      models ? R"({"object":"list","data":[{"id":"m"}]})"
             : "data: {\"id\":\"1\",\"choices\":[{\"text\":\"a\",\"finish_reason\":\"length\"}],"
               "\"usage\":{\"prompt_tokens\":3,\"completion_tokens\":1}}\n\ndata: [DONE]\n\n";
  return absl::StrCat(
      "HTTP/1.1 200 OK\r\nContent-Type: ", models ? "application/json" : "text/event-stream",
      "\r\nContent-Length: ", body.size(), "\r\n\r\n", body);
}

}  // namespace

ClosingOpenAiServer::ClosingOpenAiServer() : thread_([this] { Run(); }) {}

ClosingOpenAiServer::~ClosingOpenAiServer() {
  shutdown(listener_.socket, SHUT_RDWR);  // ends accept
  thread_.join();
  close(listener_.socket);
}

std::string ClosingOpenAiServer::url() const {
  return absl::StrCat("http://127.0.0.1:", listener_.port);
}

void ClosingOpenAiServer::Run() {
  for (;;) {
    const int connection = accept4(listener_.socket, nullptr, nullptr, SOCK_CLOEXEC);
    if (connection < 0) return;
    Serve(connection);
    close(connection);
  }
}

void ClosingOpenAiServer::Serve(int connection) {
  const std::string request = ReadRequest(connection);
  if (request.empty()) return;
  const std::string answer = AnswerTo(request);
  if (send(connection, answer.data(), answer.size(), MSG_NOSIGNAL) < 0) return;
  if (!ReadRequest(connection).empty()) ++closes_;
}

}  // namespace baton::testing
