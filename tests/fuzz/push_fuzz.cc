// Messages of a push. Pieces are decoded by hand: protobuf has to read the same. And whatever a
// sender says, only what a reservation leased is written, and only all of it is accepted.
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "common/base/clock.h"
#include "common/base/eos_probe.h"
#include "common/transport/push_wire.h"
#include "decode_worker/reservation.h"
#include "google/protobuf/stubs/logging.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/wire.h"

namespace baton::fuzz {
namespace {

std::string DataOf(const KvPiece& piece) {
  std::string data;
  for (const auto part : piece.parts) {
    data.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  return data;
}

void CheckSame(const KvPiece& piece, const worker::v1::PushPiece& read) {
  BATON_CHECK(piece.ordinal == read.ordinal()) << piece.ordinal << " and " << read.ordinal();
  BATON_CHECK(piece.offset == read.offset()) << piece.offset << " and " << read.offset();
  BATON_CHECK(piece.crc32c == read.crc32c());
  BATON_CHECK(DataOf(piece) == read.data());
}

void CheckPiece(std::string_view input, size_t slice_bytes) {
  grpc::ByteBuffer message = ByteBufferOf(input, slice_bytes);
  grpc::ByteBuffer copy = ByteBufferOf(input, slice_bytes);
  worker::v1::PushRequest request;
  const bool parsed = ParseMessage(&copy, &request);
  const auto piece = DecodePiece(&message);
  if (!piece) return;
  BATON_CHECK(parsed && request.has_piece());
  BATON_CHECK(piece->size() <= kMaxPieceBytes);
  CheckSame(*piece, request.piece());
  SourceReads reads;
  {
    grpc::ByteBuffer written = EncodePiece(*piece, &reads);
    const auto again = DecodePiece(&written);
    BATON_CHECK(again.has_value());
    CheckSame(*again, request.piece());
  }
  BATON_CHECK(reads.none());
}

class Reply final : public KvPushReply {
 public:
  void Answer(absl::StatusOr<int32_t> blocks) override {
    if (!answer_) answer_ = std::move(blocks);
  }
  const std::optional<absl::StatusOr<int32_t>>& answer() const { return answer_; }

 private:
  std::optional<absl::StatusOr<int32_t>> answer_;
};

// A decode worker that leased two blocks of eight bytes, the second of them on two ranks. Each lies
// in memory of its own, so that a byte beside it is noticed.
class Receiver final {
 public:
  static constexpr int32_t kFirstIndex = 0;
  static constexpr int32_t kVocab = 512;
  static constexpr int64_t kBlockBytes = 8;

  // False where nothing more may come.
  bool Hear(std::string_view bytes, size_t slice_bytes) {
    grpc::ByteBuffer message = ByteBufferOf(bytes, slice_bytes);
    grpc::ByteBuffer copy = ByteBufferOf(bytes, slice_bytes);
    worker::v1::PushRequest request;
    if (!ParseMessage(&copy, &request)) return false;
    if (!open_) return Open(request);
    if (const auto piece = DecodePiece(&message)) return Write(*piece);
    switch (request.message_case()) {
      case worker::v1::PushRequest::kPiece:
        return Write({.ordinal = request.piece().ordinal(),
                      .offset = request.piece().offset(),
                      .parts = {std::as_bytes(std::span(request.piece().data()))},
                      .crc32c = request.piece().crc32c()});
      case worker::v1::PushRequest::kProgress:
        reservation_.Progress(request.progress().computed_tokens());
        return true;
      case worker::v1::PushRequest::kCommit:
        Commit(CommitmentFromProto(request.commit()));
        return false;
      default:
        return false;
    }
  }
  void End() {
    if (open_) reservation_.Closed();
    bool idle = false;
    reservation_.Detach([&] { idle = true; });
    BATON_CHECK(idle);
  }

 private:
  bool Open(const worker::v1::PushRequest& request) {
    if (!request.has_open()) return false;
    const std::optional<PushHello> hello = HelloFromProto(request.open());
    BATON_CHECK(hello.has_value() ==
                (request.open().ticket().secret().size() == Ticket::kSecretBytes));
    if (!hello) return false;
    BATON_CHECK(!hello->shape.Describe().empty());
    open_ = reservation_.OpenPush(reply_);
    BATON_CHECK(open_ && !reservation_.OpenPush(reply_)) << "it takes one push";
    return true;
  }

  bool Write(const KvPiece& piece) {
    if (!Accepted(reservation_.Write(piece))) return false;
    std::string& block = written_[piece.ordinal];
    BATON_CHECK(piece.offset == std::ssize(block)) << piece.offset;
    block += DataOf(piece);
    BATON_CHECK(std::ssize(block) <= kBlockBytes) << block.size();
    return true;
  }

  void Commit(const PushCommitment& commitment) {
    reservation_.Commit(commitment);
    const bool refused = reply_->answer().has_value();
    BATON_CHECK(refused != committed_);
    if (refused) {
      BATON_CHECK(!reply_->answer()->ok() && !reply_->answer()->status().message().empty());
      return;
    }
    reservation_.Accept();
    BATON_CHECK(reply_->answer().has_value() && reply_->answer()->ok());
    BATON_CHECK(**reply_->answer() == commitment.block_count);
  }

  void OnCommitted(const PushCommitment& commitment) {
    committed_ = true;
    BATON_CHECK(commitment.block_count == 2 && commitment.byte_count == 2 * kBlockBytes);
    BATON_CHECK(std::string(first_.begin(), first_.end()) == written_[3]);
    BATON_CHECK(std::string(left_.begin(), left_.end()) +
                    std::string(right_.begin(), right_.end()) ==
                written_[4]);
    const SampledToken& token = commitment.first_token;
    BATON_CHECK(commitment.first_index == kFirstIndex && 0 <= token.token && token.token < kVocab);
    std::set<int32_t> ids;
    for (const TokenLogprob& one : token.top_logprobs) {
      BATON_CHECK(0 <= one.token && one.token < kVocab && std::isfinite(one.logprob));
      BATON_CHECK(ids.insert(one.token).second) << one.token;
    }
    BATON_CHECK(std::ssize(token.probe) <= kMaxEosProbeDims);
    for (const float product : token.probe) BATON_CHECK(std::isfinite(product));
  }

  std::vector<char> first_ = std::vector<char>(kBlockBytes);
  std::vector<char> left_ = std::vector<char>(kBlockBytes / 2), right_ = left_;
  base::ManualClock clock_;
  std::shared_ptr<Reply> reply_ = std::make_shared<Reply>();
  bool open_ = false, committed_ = false;
  std::map<int32_t, std::string> written_;
  Reservation reservation_{
      {{.ordinal = 3, .bytes = std::as_writable_bytes(std::span(first_))},
       {.ordinal = 4,
        .bytes = std::as_writable_bytes(std::span(left_)),
        .peers = {std::as_writable_bytes(std::span(right_))}}},
      kFirstIndex,
      kVocab,
      &clock_,
      {.committed = [this](const PushCommitment& commitment) { OnCommitted(commitment); },
       .refused = [](const absl::Status& status) { BATON_CHECK(!status.ok()); }}};
};

}  // namespace

// A message in each section.
FUZZ_TARGET(push) {
  google::protobuf::SetLogHandler(nullptr);  // which would tell of every string that is no UTF-8
  const size_t slice_bytes = 1 + TakeChoice(&input, 64);
  Receiver receiver;
  bool more = true;
  while (!input.empty()) {
    const std::string_view message = TakeSection(&input);
    CheckPiece(message, slice_bytes);
    more = more && receiver.Hear(message, slice_bytes);
  }
  receiver.End();
}

}  // namespace baton::fuzz
