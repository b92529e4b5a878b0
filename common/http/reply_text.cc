#include "common/http/reply_text.h"

#include <ctime>

#include "absl/strings/ascii.h"
#include "boost/asio/buffer.hpp"
#include "boost/beast/core/buffers_to_string.hpp"
#include "boost/beast/http/chunk_encode.hpp"
#include "boost/beast/http/empty_body.hpp"
#include "boost/beast/http/message.hpp"
#include "boost/beast/http/serializer.hpp"

namespace baton {
namespace {

namespace http = boost::beast::http;

std::string OneLine(std::string value) {
  for (char& byte : value) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(byte))) byte = ' ';
  }
  return value;
}

std::string DateText(double unix_now) {
  const auto seconds = static_cast<std::time_t>(unix_now);
  std::tm time{};
  gmtime_r(&seconds, &time);
  char text[40];
  return {text, std::strftime(text, sizeof(text), "%a, %d %b %Y %H:%M:%S GMT", &time)};
}

}  // namespace

std::string HeadText(const ReplyHead& head) {
  http::response<http::empty_body> message;
  message.version(head.http_1_0 ? 10 : 11);
  message.result(static_cast<unsigned>(head.status));
  message.set(http::field::date, DateText(head.unix_now));
  for (const auto& [name, value] : head.headers) message.insert(OneLine(name), OneLine(value));
  if (head.chunked) message.chunked(true);
  if (head.content_length) message.content_length(*head.content_length);
  message.keep_alive(head.keep_alive);
  http::response_serializer<http::empty_body> serializer(message);
  serializer.split(true);
  std::string text;
  boost::beast::error_code error;
  serializer.next(error, [&](boost::beast::error_code&, const auto& buffers) {
    text = boost::beast::buffers_to_string(buffers);
  });
  return text;
}

std::string ChunkText(std::string_view bytes) {
  return boost::beast::buffers_to_string(
      http::make_chunk(boost::asio::const_buffer(bytes.data(), bytes.size())));
}

std::string LastChunkText() { return boost::beast::buffers_to_string(http::make_chunk_last()); }

}  // namespace baton
