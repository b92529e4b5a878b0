#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <string_view>
#include <utility>

namespace baton {

// A client that sends exactly the bytes it is told to, over one connection to a port of 127.0.0.1.
// Reads end after ten seconds, so that a test fails and does not hang.
class RawHttp final {
 public:
  explicit RawHttp(int port, int receive_buffer = 0) : fd_(socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof(receive_buffer));
    }
    const timeval patience{.tv_sec = 10, .tv_usec = 0};
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<uint16_t>(port));
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
  }
  ~RawHttp() { Close(); }
  RawHttp(const RawHttp&) = delete;
  RawHttp& operator=(const RawHttp&) = delete;

  bool connected() const { return connected_; }
  // False once the server has closed.
  bool Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<size_t>(sent));
    }
    return true;
  }
  // All up to and with the next `end`, or what came before the server closed.
  std::string ReadTo(std::string_view end) {
    size_t at = 0;
    while ((at = read_.find(end)) == std::string::npos) {
      if (!Receive()) return std::exchange(read_, "");
    }
    std::string found = read_.substr(0, at + end.size());
    read_.erase(0, found.size());
    return found;
  }
  // The header of an answer and as many bytes of its body.
  std::string ReadAnswer(size_t body_bytes) {
    std::string answer = ReadTo("\r\n\r\n");
    return answer + ReadBytes(body_bytes);
  }
  // So many bytes, or what came before the server closed.
  std::string ReadBytes(size_t bytes) {
    while (read_.size() < bytes && Receive()) {
    }
    std::string found = read_.substr(0, bytes);
    read_.erase(0, bytes);
    return found;
  }
  // Takes what came, and at most so many bytes more; how many there were.
  size_t Take(size_t bytes) {
    std::string got(bytes, ' ');
    const ssize_t more = recv(fd_, got.data(), got.size(), MSG_DONTWAIT);
    return std::exchange(read_, "").size() + static_cast<size_t>(more > 0 ? more : 0);
  }
  // All until the server closes.
  std::string ReadAll() {
    while (Receive()) {
    }
    return std::exchange(read_, "");
  }
  // That the server has closed, with nothing more to read.
  bool IsClosed() { return read_.empty() && !Receive() && !timed_out_; }
  void CloseWriting() { shutdown(fd_, SHUT_WR); }
  void Close() {
    if (fd_ >= 0) close(std::exchange(fd_, -1));
  }

 private:
  bool Receive() {
    char bytes[16'384];
    const ssize_t got = recv(fd_, bytes, sizeof(bytes), 0);
    timed_out_ = got < 0 && errno == EAGAIN;
    if (got > 0) read_.append(bytes, static_cast<size_t>(got));
    return got > 0;
  }

  int fd_;
  bool connected_ = false;
  bool timed_out_ = false;
  std::string read_;
};

}  // namespace baton
