#include <sys/socket.h>

#include <cerrno>

#include "common/http/byte_stream.h"

namespace baton {
namespace {

class PlainStream final : public ByteStream {
 public:
  explicit PlainStream(int fd) : fd_(fd) {}

  StreamResult Handshake() override { return StreamResult::kDone; }
  StreamResult Read(char* data, size_t size, size_t* got) override {
    const ssize_t bytes = recv(fd_, data, size, 0);
    *got = bytes > 0 ? static_cast<size_t>(bytes) : 0;
    if (bytes > 0) return StreamResult::kDone;
    return bytes < 0 && IsForNow(errno) ? StreamResult::kWantRead : StreamResult::kClosed;
  }
  StreamResult Write(std::string_view bytes, size_t* taken) override {
    const ssize_t sent = send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    *taken = sent > 0 ? static_cast<size_t>(sent) : 0;
    if (sent >= 0) return StreamResult::kDone;
    return IsForNow(errno) ? StreamResult::kWantWrite : StreamResult::kClosed;
  }
  void CloseWriting() override { shutdown(fd_, SHUT_WR); }
  bool has_certificate() const override { return false; }
  std::vector<std::string> certificate_names() const override { return {}; }

 private:
  static bool IsForNow(int error) {
    return error == EAGAIN || error == EWOULDBLOCK || error == EINTR;
  }

  const int fd_;
};

}  // namespace

std::unique_ptr<ByteStream> MakePlainStream(int fd) { return std::make_unique<PlainStream>(fd); }

}  // namespace baton
