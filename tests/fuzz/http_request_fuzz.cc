// Requests over HTTP: what is read does not depend on where the bytes are cut, and keeps to the
// limits.
#include <optional>
#include <string>

#include "common/http/request_reader.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {
namespace {

constexpr size_t kHeaderBytes = 256;
constexpr size_t kBodyBytes = 64;

struct ReadRequest {
  int status = 0;  // of a refusal
  HttpRequest request;
};

// The first request, which arrives in pieces of `piece_bytes`; nothing if more has to come.
std::optional<ReadRequest> FirstOf(std::string_view input, size_t piece_bytes) {
  RequestReader reader(kHeaderBytes, kBodyBytes);
  std::string waiting;
  while (true) {
    std::string_view view = waiting;
    const RequestReader::Progress progress = reader.Read(&view);
    waiting.erase(0, waiting.size() - view.size());
    BATON_CHECK(reader.body_size() <= kBodyBytes) << reader.body_size();
    if (progress == RequestReader::Progress::kFailed) {
      BATON_CHECK(!reader.failure().message.empty());
      return ReadRequest{.status = reader.failure().status, .request = {}};
    }
    if (progress == RequestReader::Progress::kDone) {
      return ReadRequest{.status = 0, .request = std::move(reader.request())};
    }
    if (progress == RequestReader::Progress::kHeader) continue;
    if (input.empty()) return std::nullopt;
    waiting += input.substr(0, piece_bytes);
    input.remove_prefix(std::min(piece_bytes, input.size()));
  }
}

}  // namespace

FUZZ_TARGET(http_request) {
  const auto whole = FirstOf(input, 64);
  for (const size_t piece_bytes : {1, 7}) {
    const auto pieces = FirstOf(input, piece_bytes);
    // Where a limit is met depends on the pieces, what is accepted does not.
    if (!whole || !pieces || whole->status != 0 || pieces->status != 0) continue;
    BATON_CHECK(whole->request.path == pieces->request.path) << piece_bytes;
    BATON_CHECK(whole->request.headers == pieces->request.headers) << piece_bytes;
    BATON_CHECK(whole->request.body == pieces->request.body) << piece_bytes;
  }
  if (!whole || whole->status != 0) return;
  BATON_CHECK(!whole->request.method.empty());
  BATON_CHECK(whole->request.path.starts_with("/") || whole->request.path == "*");
  BATON_CHECK(whole->request.body.size() <= kBodyBytes);
  size_t header_bytes = whole->request.path.size();
  for (const auto& [name, value] : whole->request.headers) {
    header_bytes += name.size() + value.size();
  }
  BATON_CHECK(header_bytes <= kHeaderBytes) << header_bytes;
}

}  // namespace baton::fuzz
