#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "common/http/http_message.h"

namespace baton {

// Reads one request from the bytes of a connection, piece by piece. Knows no sockets, so that it
// can be fuzzed.
class RequestReader final {
 public:
  enum class Progress {
    kMore,    // needs further bytes
    kHeader,  // the header is complete; told once
    kDone,    // the request is
    kFailed   // see failure(); the connection is of no use any more
  };
  struct Failure {
    int status = 400;
    std::string message;
  };

  RequestReader(size_t header_bytes, size_t body_bytes);
  ~RequestReader();

  // Takes what it understands from the front of `input`, which it shortens. What it leaves must
  // stand at the front again in the next call.
  Progress Read(std::string_view* input);

  const Failure& failure() const { return failure_; }
  // From kHeader on; the body is there from kDone on.
  HttpRequest& request() { return request_; }
  // What the header announced; empty of a chunked body.
  std::optional<size_t> announced() const;
  bool has_body() const;
  // The client waits for 100 before it sends the body.
  bool expects_continue() const { return expects_continue_; }
  bool keep_alive() const;
  bool http_1_0() const;
  // Bytes of the header, and of the body so far.
  size_t header_size() const { return header_taken_; }
  size_t body_size() const;

 private:
  struct Parser;
  Progress Fail(int status, std::string message);
  Progress TooManyFields(std::ptrdiff_t fields);
  Progress OnHeader();
  bool TakeTarget(std::string_view target);

  const size_t header_bytes_;
  const size_t body_bytes_;
  std::unique_ptr<Parser> parser_;
  HttpRequest request_;
  Failure failure_;
  size_t header_taken_ = 0;  // bytes of the header so far
  bool header_done_ = false;
  bool expects_continue_ = false;
};

}  // namespace baton
