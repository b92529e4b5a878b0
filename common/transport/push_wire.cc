#include "common/transport/push_wire.h"

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "common/rpc/generation.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/proto_buffer_reader.h"

namespace baton {
namespace {

using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;
using google::protobuf::io::CodedOutputStream;
using google::protobuf::io::StringOutputStream;
using worker::v1::PushPiece;
using worker::v1::PushRequest;

constexpr uint32_t LengthTag(int field) {
  return WireFormatLite::MakeTag(field, WireFormatLite::WIRETYPE_LENGTH_DELIMITED);
}
constexpr uint32_t kPieceTag = LengthTag(PushRequest::kPieceFieldNumber);
constexpr uint32_t kDataTag = LengthTag(PushPiece::kDataFieldNumber);
constexpr uint32_t kOrdinalTag =
    WireFormatLite::MakeTag(PushPiece::kOrdinalFieldNumber, WireFormatLite::WIRETYPE_VARINT);
constexpr uint32_t kOffsetTag =
    WireFormatLite::MakeTag(PushPiece::kOffsetFieldNumber, WireFormatLite::WIRETYPE_VARINT);
constexpr uint32_t kCrcTag =
    WireFormatLite::MakeTag(PushPiece::kCrc32CFieldNumber, WireFormatLite::WIRETYPE_FIXED32);

// Everything of the message that stands before the bytes of `data`, which come last.
std::string HeaderOf(const KvPiece& piece) {
  PushPiece rest;
  rest.set_ordinal(piece.ordinal);
  rest.set_offset(piece.offset);
  rest.set_crc32c(piece.crc32c);
  const std::string fields = rest.SerializeAsString();
  const auto size = static_cast<uint32_t>(piece.size());
  const size_t inner = fields.size() + CodedOutputStream::VarintSize32(kDataTag) +
                       CodedOutputStream::VarintSize32(size) + size;
  std::string header;
  {
    StringOutputStream stream(&header);
    CodedOutputStream out(&stream);
    out.WriteTag(kPieceTag);
    out.WriteVarint32(static_cast<uint32_t>(inner));
    out.WriteString(fields);
    out.WriteTag(kDataTag);
    out.WriteVarint32(size);
  }
  return header;
}

// protobuf's parser takes no more bytes for a tag or a length; its stream would.
constexpr int kMostVarintBytes = 5;

// 0, which is no tag, at the end and where none can be read.
uint32_t ReadTag(CodedInputStream* in) {
  const int begin = in->CurrentPosition();
  const uint32_t tag = in->ReadTag();
  return in->CurrentPosition() - begin <= kMostVarintBytes ? tag : 0;
}

bool ReadLength(CodedInputStream* in, int* length) {
  const int begin = in->CurrentPosition();
  return in->ReadVarintSizeAsInt(length) && in->CurrentPosition() - begin <= kMostVarintBytes;
}

bool ReadData(CodedInputStream* in, KvPiece* piece) {
  int left = 0;
  if (!ReadLength(in, &left) || static_cast<size_t>(left) > kMaxPieceBytes) return false;
  piece->parts.clear();  // the last of repeated fields counts
  while (left > 0) {
    const void* data = nullptr;
    int size = 0;
    if (!in->GetDirectBufferPointer(&data, &size)) return false;
    size = std::min(size, left);
    piece->parts.emplace_back(static_cast<const std::byte*>(data), static_cast<size_t>(size));
    in->Skip(size);
    left -= size;
  }
  return true;
}

bool ReadField(CodedInputStream* in, uint32_t tag, KvPiece* piece) {
  uint64_t number = 0;
  switch (tag) {
    case kOrdinalTag:
      if (!in->ReadVarint64(&number)) return false;
      piece->ordinal = static_cast<int32_t>(number);  // the low bits, as protobuf takes them
      return true;
    case kOffsetTag:
      if (!in->ReadVarint64(&number)) return false;
      piece->offset = static_cast<int64_t>(number);
      return true;
    case kCrcTag:
      return in->ReadLittleEndian32(&piece->crc32c);
    case kDataTag:
      return ReadData(in, piece);
    default:
      return false;
  }
}

}  // namespace

void SourceReads::Release(void* reads) {
  static_cast<SourceReads*>(reads)->out_.fetch_sub(1, std::memory_order_release);
}

// Encodes a piece that is a copy: the message owns a share of it.
grpc::ByteBuffer EncodeCopy(const KvPiece& piece) {
  using Copy = std::shared_ptr<const std::byte[]>;
  std::vector<grpc::Slice> slices = {grpc::Slice(HeaderOf(piece))};
  for (const std::span<const std::byte> part : piece.parts) {
    slices.emplace_back(
        const_cast<std::byte*>(part.data()), part.size(),
        [](void* copy) { delete static_cast<Copy*>(copy); }, new Copy(piece.copy));
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

grpc::ByteBuffer EncodePiece(const KvPiece& piece, SourceReads* reads) {
  if (piece.copy != nullptr) return EncodeCopy(piece);
  std::vector<grpc::Slice> slices = {grpc::Slice(HeaderOf(piece))};
  for (const std::span<const std::byte> part : piece.parts) {
    reads->out_.fetch_add(1, std::memory_order_relaxed);
    // gRPC does not write to it; its type of a foreign slice is just not const.
    slices.emplace_back(const_cast<std::byte*>(part.data()), part.size(), SourceReads::Release,
                        reads);
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

grpc::ByteBuffer EncodeMessage(const PushRequest& request) {
  const grpc::Slice slice(request.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

std::optional<KvPiece> DecodePiece(grpc::ByteBuffer* message) {
  const size_t bytes = message->Length();
  grpc::ProtoBufferReader stream(message);
  CodedInputStream in(&stream);
  int size = 0;
  if (ReadTag(&in) != kPieceTag || !ReadLength(&in, &size)) return std::nullopt;
  // The reader takes the largest of all sizes for no limit, so that the piece would seem empty.
  if (static_cast<size_t>(size) > bytes) return std::nullopt;
  const CodedInputStream::Limit outer = in.PushLimit(size);
  KvPiece piece;
  while (in.BytesUntilLimit() > 0) {
    if (!ReadField(&in, ReadTag(&in), &piece)) return std::nullopt;
  }
  in.PopLimit(outer);
  // A message with another field is left to protobuf, which knows how to merge the two.
  if (ReadTag(&in) != 0 || !in.ConsumedEntireMessage()) return std::nullopt;
  return piece;
}

bool ParseMessage(grpc::ByteBuffer* message, PushRequest* request) {
  grpc::ProtoBufferReader stream(message);
  return stream.status().ok() && request->ParseFromZeroCopyStream(&stream);
}

std::optional<PushHello> HelloFromProto(const worker::v1::PushOpen& open) {
  const std::optional<Ticket> ticket = TicketFromProto(open.ticket());
  if (!ticket) return std::nullopt;
  return PushHello{.ticket = *ticket,
                   .shape = KvShapeFromProto(open.layout()),
                   .model_fingerprint = open.model_fingerprint(),
                   .numerics = open.numerics()};
}

PushCommitment CommitmentFromProto(const worker::v1::PushCommit& commit) {
  PlacedToken first = TokenFromProto(commit.first_token());
  return {.block_count = commit.block_count(),
          .byte_count = commit.byte_count(),
          .first_index = first.index,
          .first_token = std::move(first.token),
          .unix_time = first.unix_time,
          .probe_digest = commit.probe_digest()};
}

}  // namespace baton
