#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

// How a call of a ByteStream ended. None of them waits.
enum class StreamResult {
  kDone,
  kWantRead,   // again once the socket can be read
  kWantWrite,  // again once it can be written
  kClosed      // by the peer, or broken
};

// The bytes of a connection over a socket that does not block and is not owned. Of one thread.
class ByteStream {
 public:
  virtual ~ByteStream() = default;
  // Before anything else, until it is done.
  virtual StreamResult Handshake() = 0;
  // At least one byte and at most `size`, when done.
  virtual StreamResult Read(char* data, size_t size, size_t* got) = 0;
  virtual StreamResult Write(std::string_view bytes, size_t* taken) = 0;
  // Tells the peer that nothing more comes.
  virtual void CloseWriting() = 0;
  virtual bool has_certificate() const = 0;
  // In the certificate that the peer showed, as PeerNames (credentials.h).
  virtual std::vector<std::string> certificate_names() const = 0;
};

std::unique_ptr<ByteStream> MakePlainStream(int fd);

}  // namespace baton
