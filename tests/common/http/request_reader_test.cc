#include "common/http/request_reader.h"

#include <string>
#include <string_view>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace baton {
namespace {

using ::testing::HasSubstr;
using Progress = RequestReader::Progress;

constexpr size_t kHeaderBytes = 512;
constexpr size_t kBodyBytes = 64;

// Reads `text` in pieces of so many bytes, as a connection would give them.
struct Reading {
  explicit Reading(std::string_view text, size_t piece = std::string_view::npos)
      : reader(kHeaderBytes, kBodyBytes) {
    while (last != Progress::kDone && last != Progress::kFailed) {
      std::string_view view = waiting;
      last = reader.Read(&view);
      waiting.erase(0, waiting.size() - view.size());
      if (last == Progress::kHeader) ++headers;
      if (last != Progress::kMore) continue;
      if (text.empty()) return;
      waiting += text.substr(0, piece);
      text.remove_prefix(std::min(piece, text.size()));
    }
    waiting += text;
  }

  RequestReader reader;
  Progress last = Progress::kMore;
  std::string waiting;
  int headers = 0;
};

int StatusOf(std::string_view text) {
  const Reading reading(text);
  return reading.last == Progress::kFailed ? reading.reader.failure().status : 0;
}

TEST(RequestReader, ReadsARequestInPiecesOfAnySize) {
  const std::string_view text =
      "POST /v1/chat?a=b HTTP/1.1\r\nHost: h\r\ncontent-LENGTH: 5\r\nX: 1\r\nx: 2\r\n\r\nhello";
  for (size_t piece = 1; piece <= text.size(); ++piece) {
    Reading reading(text, piece);
    ASSERT_EQ(reading.last, Progress::kDone) << piece;
    EXPECT_EQ(reading.headers, 1);
    const HttpRequest& request = reading.reader.request();
    EXPECT_EQ(request.method, "POST");
    EXPECT_EQ(request.path, "/v1/chat");
    EXPECT_EQ(request.query, "a=b");
    EXPECT_EQ(request.body, "hello");
    EXPECT_EQ(*request.Find("Content-Length"), "5");
    EXPECT_THAT(request.FindAll("X"), ::testing::ElementsAre("1", "2"));
    EXPECT_EQ(reading.reader.announced(), 5u);
    EXPECT_TRUE(reading.reader.keep_alive());
  }
}

TEST(RequestReader, ReadsChunks) {
  const std::string_view text =
      "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n"
      "3;ext=1\r\nabc\r\nA\r\n0123456789\r\n0\r\nTrailer: t\r\n\r\nGET";
  for (const size_t piece : {1, 2, 7, 1000}) {
    Reading reading(text, piece);
    ASSERT_EQ(reading.last, Progress::kDone) << piece;
    EXPECT_EQ(reading.reader.request().body, "abc0123456789");
    EXPECT_EQ(reading.reader.announced(), std::nullopt);
    EXPECT_TRUE(reading.waiting.starts_with("G") || piece == 1) << reading.waiting;
  }
}

TEST(RequestReader, LeavesTheNextRequest) {
  Reading reading("GET /a HTTP/1.1\r\nHost: h\r\n\r\nGET /b HTTP/1.1\r\n");
  ASSERT_EQ(reading.last, Progress::kDone);
  EXPECT_FALSE(reading.reader.has_body());
  EXPECT_EQ(reading.waiting, "GET /b HTTP/1.1\r\n");
}

TEST(RequestReader, RefusesABodyBeyondTheLimitBeforeItCame) {
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 65\r\n\r\n"), 413);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n41\r\n" +
                     std::string(65, 'x') + "\r\n"),
            413);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 64\r\n\r\n"), 0);
}

TEST(RequestReader, RefusesAHeaderBeyondTheLimit) {
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: h\r\nX: " + std::string(600, 'x')), 431);
  EXPECT_EQ(StatusOf("GET /" + std::string(600, 'x')), 431);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n1;x=" +
                     std::string(600, 'x')),
            431);
}

// In one piece, as in several: the parser takes a chunk's line and a trailer that are complete.
TEST(RequestReader, HoldsTheLimitsAgainstChunksAndTrailers) {
  const std::string head = "POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\n";
  const auto status = [&head](const std::string& chunks, size_t piece) {
    const Reading reading(head + chunks, piece);
    return reading.last == Progress::kFailed ? reading.reader.failure().status : 0;
  };
  const auto line = [](size_t bytes) {
    return "1;" + std::string(bytes - 4, 'x') + "\r\nx\r\n0\r\n\r\n";
  };
  const auto trailer = [](size_t bytes) {
    return "0\r\nX: " + std::string(bytes - 10, 'x') + "\r\n\r\n";
  };
  const auto fields = [](int count) {
    std::string text = "0\r\n";
    for (int i = 0; i < count; ++i) text += "a:\r\n";
    return text + "\r\n";
  };
  for (const size_t piece : {size_t{1}, size_t{100}, std::string::npos}) {
    EXPECT_EQ(status(line(kHeaderBytes), piece), 0) << piece;
    EXPECT_EQ(status(line(kHeaderBytes + 1), piece), 431) << piece;
    EXPECT_EQ(status(trailer(kHeaderBytes), piece), 0) << piece;
    EXPECT_EQ(status(trailer(kHeaderBytes + 1), piece), 431) << piece;
    // Two stand in the header.
    EXPECT_EQ(status(fields(126), piece), 0) << piece;
    EXPECT_EQ(status(fields(127), piece), 431) << piece;
  }
}

// A field is understood when the first byte of the next is there, and is then out of sight.
TEST(RequestReader, HoldsTheLimitAgainstFieldsThatComeOneByOne) {
  RequestReader reader(kHeaderBytes, kBodyBytes);
  std::string waiting = "GET / HTTP/1.1\r\nHost: h\r\nX";
  size_t sent = waiting.size();
  Progress last = Progress::kMore;
  while (last == Progress::kMore && sent < 4 * kHeaderBytes) {
    std::string_view view = waiting;
    last = reader.Read(&view);
    waiting.erase(0, waiting.size() - view.size());
    waiting += ": 1\r\nX";
    sent += 6;
  }
  ASSERT_EQ(last, Progress::kFailed);
  EXPECT_EQ(reader.failure().status, 431);
  EXPECT_LE(sent, kHeaderBytes + 12);
}

TEST(RequestReader, TheLimitIsOneOfTheLineAndTheFieldsTogether) {
  const auto text = [](size_t path, size_t value) {
    return "GET /" + std::string(path, 'p') +
           " HTTP/1.1\r\nHost: h\r\nX: " + std::string(value, 'x') + "\r\n\r\n";
  };
  const size_t others = text(0, 0).size();
  EXPECT_EQ(StatusOf(text(300, kHeaderBytes - others - 300)), 0);
  EXPECT_EQ(StatusOf(text(300, kHeaderBytes - others - 299)), 431);
}

TEST(RequestReader, RefusesMoreFieldsThanAnybodyNeeds) {
  const auto status = [](int fields) {
    std::string text = "GET / HTTP/1.1\r\nHost: h\r\n";
    for (int i = 1; i < fields; ++i) text += "a:\r\n";
    RequestReader reader(4096, kBodyBytes);
    const std::string whole = text + "\r\n";
    std::string_view view = whole;
    return reader.Read(&view) == Progress::kFailed ? reader.failure().status : 0;
  };
  EXPECT_EQ(status(128), 0);
  EXPECT_EQ(status(129), 431);
}

TEST(RequestReader, RefusesWhatIsNoRequest) {
  EXPECT_EQ(StatusOf("\x16\x03\x01\x02\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\nHost: h\n\n\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.2\r\nHost: h\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/0.9\r\nHost: h\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET nothing HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nExpect: me\r\nHost: h\r\n\r\n"), 417);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\n\r\nxyz\r\n"),
            400);
}

TEST(RequestReader, DemandsOneHost) {
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n"), 400);
  const Reading old("GET / HTTP/1.0\r\n\r\n");
  EXPECT_EQ(old.last, Progress::kDone);
  EXPECT_FALSE(old.reader.keep_alive());
}

// Where two servers on a way read different lengths, one request hides another.
TEST(RequestReader, RefusesTwoLengths) {
  EXPECT_EQ(
      StatusOf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n"),
      400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 1\r\n"
                     "Transfer-Encoding: chunked\r\n\r\n"),
            400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nContent-Length: -1\r\n\r\n"), 400);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip\r\n\r\n"), 501);
  EXPECT_EQ(StatusOf("POST / HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: gzip, chunked\r\n\r\n"),
            501);
}

// A proxy of that age passes on what it takes for a body without end, or none.
TEST(RequestReader, RefusesChunksOfOldClients) {
  EXPECT_EQ(StatusOf("POST / HTTP/1.0\r\nConnection: keep-alive\r\nTransfer-Encoding: "
                     "chunked\r\n\r\n0\r\n\r\n"),
            400);
}

TEST(RequestReader, RefusesBodiesInAnotherCoding) {
  const auto reading = [](const std::string& fields) {
    return Reading("POST / HTTP/1.1\r\nHost: h\r\n" + fields + "\r\nhello");
  };
  for (const char* coding : {"gzip", "br", "identity, gzip", "x\r\nContent-Encoding: identity",
                             "identity\r\ncontent-encoding: deflate"}) {
    const Reading refused =
        reading("Content-Length: 5\r\nContent-Encoding: " + std::string(coding) + "\r\n");
    ASSERT_EQ(refused.last, Progress::kFailed) << coding;
    EXPECT_EQ(refused.reader.failure().status, 415) << coding;
    EXPECT_THAT(refused.reader.failure().message,
                ::testing::AllOf(HasSubstr("Content-Encoding is '"), HasSubstr("identity")));
  }
  for (const char* coding : {"identity", "Identity", ""}) {
    EXPECT_EQ(
        reading("Content-Length: 5\r\nContent-Encoding: " + std::string(coding) + "\r\n").last,
        Progress::kDone)
        << coding;
  }
  EXPECT_EQ(reading("Content-Encoding: gzip\r\n").last, Progress::kDone) << "there is no body";
  EXPECT_THAT(reading("Content-Length: 5\r\nContent-Encoding: z\xff\r\n").reader.failure().message,
              HasSubstr("Content-Encoding is 'z\\xff'"));
}

TEST(RequestReader, TakesTheWholeUrlsOfProxies) {
  Reading reading("GET http://h:1/x?y HTTP/1.1\r\nHost: h:1\r\n\r\n");
  ASSERT_EQ(reading.last, Progress::kDone);
  EXPECT_EQ(reading.reader.request().path, "/x");
  EXPECT_EQ(reading.reader.request().query, "y");
  EXPECT_EQ(StatusOf("GET x?http://h/x HTTP/1.1\r\nHost: h\r\n\r\n"), 400);
}

}  // namespace
}  // namespace baton
