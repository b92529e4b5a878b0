#include "common/http/request_reader.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "boost/beast/core/buffers_range.hpp"
#include "boost/beast/http/message.hpp"
#include "boost/beast/http/parser.hpp"

namespace baton {
namespace {

// Each field takes many times its least size in memory, so bytes alone are no bound.
constexpr std::ptrdiff_t kMostFields = 128;

namespace http = boost::beast::http;
using BeastError = boost::beast::error_code;

// The body as a string that grows with what came. Beast's own makes room for what was announced.
struct GrowingBody {
  using value_type = std::string;
  class reader {
   public:
    template <bool is_request, class Fields>
    reader(http::header<is_request, Fields>&, value_type& body) : body_(body) {}
    void init(const boost::optional<std::uint64_t>&, BeastError& error) { error = {}; }
    template <class Buffers>
    size_t put(const Buffers& buffers, BeastError& error) {
      error = {};
      size_t bytes = 0;
      for (const auto buffer : boost::beast::buffers_range_ref(buffers)) {
        body_.append(static_cast<const char*>(buffer.data()), buffer.size());
        bytes += buffer.size();
      }
      return bytes;
    }
    void finish(BeastError& error) { error = {}; }

   private:
    value_type& body_;
  };
};

std::string_view View(boost::beast::string_view text) { return {text.data(), text.size()}; }

absl::string_view Absl(std::string_view text) { return {text.data(), text.size()}; }

// The coding of a body that is packed, or "". It would be taken for what it is not; nothing here
// unpacks one.
std::string CodingOf(const HttpRequest& request) {
  for (const std::string& coding : request.FindAll("Content-Encoding")) {
    if (!coding.empty() && !absl::EqualsIgnoreCase(coding, "identity")) return coding;
  }
  return "";
}

}  // namespace

struct RequestReader::Parser {
  http::request_parser<GrowingBody> beast;
};

RequestReader::RequestReader(size_t header_bytes, size_t body_bytes)
    : header_bytes_(header_bytes), body_bytes_(body_bytes), parser_(new Parser) {
  parser_->beast.header_limit(static_cast<uint32_t>(header_bytes));
  parser_->beast.body_limit(body_bytes);
}

RequestReader::~RequestReader() = default;

RequestReader::Progress RequestReader::Fail(int status, std::string message) {
  failure_ = {.status = status, .message = std::move(message)};
  return Progress::kFailed;
}

RequestReader::Progress RequestReader::TooManyFields(std::ptrdiff_t fields) {
  return Fail(431, absl::StrCat("the header and the trailer have ", fields,
                                " fields; expected at most ", kMostFields));
}

RequestReader::Progress RequestReader::Read(std::string_view* input) {
  auto& beast = parser_->beast;
  while (!beast.is_done()) {
    if (input->empty()) return Progress::kMore;
    // The parser has no limit of its own for a chunk's line and the trailer, which it takes whole:
    // it sees no more of these at once than they may have.
    const size_t seen = header_done_ ? std::min(input->size(), header_bytes_) : input->size();
    BeastError error;
    const size_t taken = beast.put(boost::asio::const_buffer(input->data(), seen), error);
    input->remove_prefix(taken);
    if (error == http::error::body_limit) {
      return Fail(413, absl::StrCat("the body has more than ", body_bytes_, " bytes; send less"));
    }
    const bool right = !error || error == http::error::need_more;
    if (!right && error != http::error::header_limit) {
      return Fail(400, absl::StrCat("the request cannot be read: ", error.message(),
                                    "; send one as HTTP/1.1 has it"));
    }
    // The parser's own limit is one of what it has not understood yet: fields that come piece by
    // piece could go on for ever.
    if (!header_done_) header_taken_ += taken;
    const size_t rest = beast.is_header_done() ? 0 : input->size();
    if (!right || header_taken_ + rest > header_bytes_) {
      return Fail(431, absl::StrCat("the header has more than ", header_bytes_,
                                    " bytes; send fewer or shorter fields"));
    }
    if (!header_done_ && beast.is_header_done()) return OnHeader();
    if (error == http::error::need_more && taken == 0) {
      if (!header_done_ || input->size() < header_bytes_) return Progress::kMore;
      return Fail(431, absl::StrCat("a chunk's line or the trailer has more than ", header_bytes_,
                                    " bytes; send less in it"));
    }
  }
  const auto trailer = std::distance(beast.get().begin(), beast.get().end());
  if (const auto fields = std::ssize(request_.headers) + trailer; fields > kMostFields) {
    return TooManyFields(fields);
  }
  request_.body = std::move(beast.get().body());
  return Progress::kDone;
}

RequestReader::Progress RequestReader::OnHeader() {
  header_done_ = true;
  auto& beast = parser_->beast;
  const auto& message = beast.get();
  request_.method = std::string(View(message.method_string()));
  int hosts = 0;
  request_.headers.reserve(static_cast<size_t>(std::distance(message.begin(), message.end())));
  for (const auto& field : message) {
    if (field.name() == http::field::host) ++hosts;
    request_.headers.emplace_back(View(field.name_string()), View(field.value()));
  }
  if (std::ssize(request_.headers) > kMostFields) {
    return TooManyFields(std::ssize(request_.headers));
  }
  if (!TakeTarget(View(message.target()))) {
    return Fail(400, "the request's target is no path; expected one that begins with /");
  }
  if (hosts > 1 || (hosts == 0 && !http_1_0())) {
    return Fail(400, absl::StrCat("there are ", hosts, " Host headers; expected one"));
  }
  if (const std::string* expect = request_.Find("Expect"); expect != nullptr && !http_1_0()) {
    if (!absl::EqualsIgnoreCase(*expect, "100-continue")) {
      return Fail(417, "the header Expect asks for what is not known here; leave it out");
    }
    expects_continue_ = has_body();
  }
  // The parser passes over others, and would take the body for the next request.
  if (const std::string* coding = request_.Find("Transfer-Encoding"); coding != nullptr) {
    if (!absl::EqualsIgnoreCase(*coding, "chunked")) {
      return Fail(501, "the transfer coding is not known here; expected chunked");
    }
    // Who passes on what is older than chunks would not see them.
    if (http_1_0()) {
      return Fail(400, "HTTP/1.0 has no transfer codings; send HTTP/1.1, or a Content-Length");
    }
  }
  if (const std::string coding = CodingOf(request_); has_body() && !coding.empty()) {
    return Fail(415, absl::StrCat("Content-Encoding is '", absl::CHexEscape(coding.substr(0, 64)),
                                  "', which is not known here; expected identity, or no such "
                                  "header: send the body as it is"));
  }
  beast.get().clear();  // only the trailer's fields are still to be counted
  beast.eager(true);
  return Progress::kHeader;
}

bool RequestReader::TakeTarget(std::string_view target) {
  // Proxies ask for a whole URL.
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (!absl::StartsWithIgnoreCase(Absl(target), Absl(scheme))) continue;
    const size_t path = target.find_first_of("/?", scheme.size());
    target = path == std::string_view::npos ? std::string_view("/") : target.substr(path);
    break;
  }
  const size_t mark = target.find('?');
  request_.path = std::string(target.substr(0, mark));
  if (mark != std::string_view::npos) request_.query = std::string(target.substr(mark + 1));
  if (request_.path == "*") return absl::EqualsIgnoreCase(request_.method, "OPTIONS");
  return absl::StartsWith(Absl(request_.path), "/");
}

std::optional<size_t> RequestReader::announced() const {
  const auto length = parser_->beast.content_length();
  if (length) return static_cast<size_t>(*length);
  if (parser_->beast.chunked()) return std::nullopt;
  return 0;
}

bool RequestReader::has_body() const { return announced().value_or(1) > 0; }

bool RequestReader::keep_alive() const { return parser_->beast.keep_alive(); }

bool RequestReader::http_1_0() const { return parser_->beast.get().version() == 10; }

size_t RequestReader::body_size() const { return parser_->beast.get().body().size(); }

}  // namespace baton
