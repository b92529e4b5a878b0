// Messages of a push, which are decoded by hand: protobuf has to read the same.
#include <string>

#include "common/transport/push_wire.h"
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

}  // namespace

FUZZ_TARGET(push) {
  const size_t slice_bytes = 1 + TakeChoice(&input, 64);
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

}  // namespace baton::fuzz
