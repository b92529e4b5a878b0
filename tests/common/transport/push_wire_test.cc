// The raw messages of a push against the classes that protoc makes of kv_transfer.proto.
#include "common/transport/push_wire.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "google/protobuf/unknown_field_set.h"

namespace baton {
namespace {

using worker::v1::PushRequest;

KvPiece PieceOf(const std::string& data) {
  return {.ordinal = 300,
          .offset = int64_t{1} << 40,
          .parts = {std::as_bytes(std::span(data))},
          .crc32c = 0xdeadbeef};
}

std::string BytesOf(const KvPiece& piece) {
  std::string bytes;
  for (const std::span<const std::byte> part : piece.parts) {
    bytes.append(reinterpret_cast<const char*>(part.data()), part.size());
  }
  return bytes;
}

std::string BytesOf(const grpc::ByteBuffer& message) {
  std::vector<grpc::Slice> slices;
  EXPECT_TRUE(message.Dump(&slices).ok());
  std::string bytes;
  for (const grpc::Slice& slice : slices) {
    bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
  }
  return bytes;
}

// The message as the network may deliver it: cut before each of `cuts`, which ascend.
grpc::ByteBuffer BufferOf(const std::string& wire, const std::vector<size_t>& cuts = {}) {
  std::vector<grpc::Slice> slices;
  size_t begin = 0;
  for (const size_t cut : cuts) {
    slices.emplace_back(wire.substr(begin, cut - begin));
    begin = cut;
  }
  slices.emplace_back(wire.substr(begin));
  return grpc::ByteBuffer(slices.data(), slices.size());
}

std::string WireOf(const std::string& data) {
  PushRequest request;
  request.mutable_piece()->set_ordinal(300);
  request.mutable_piece()->set_offset(int64_t{1} << 40);
  request.mutable_piece()->set_data(data);
  request.mutable_piece()->set_crc32c(0xdeadbeef);
  return request.SerializeAsString();
}

void ExpectSame(const KvPiece& piece, const worker::v1::PushPiece& proto) {
  EXPECT_EQ(piece.ordinal, proto.ordinal());
  EXPECT_EQ(piece.offset, proto.offset());
  EXPECT_EQ(piece.crc32c, proto.crc32c());
  EXPECT_EQ(BytesOf(piece), proto.data());
}

// What DecodePiece accepts, protobuf reads the same way; what protobuf refuses, it does not accept.
// Returns whether it accepted.
bool ExpectAgreement(const std::string& wire, const std::vector<size_t>& cuts = {}) {
  grpc::ByteBuffer message = BufferOf(wire, cuts);
  const std::optional<KvPiece> piece = DecodePiece(&message);
  if (!piece) return false;
  PushRequest request;
  EXPECT_TRUE(request.ParseFromString(wire));
  EXPECT_TRUE(request.has_piece());
  ExpectSame(*piece, request.piece());
  return true;
}

// A field as protobuf writes it: tag, then for length-delimited ones the length.
std::string Varint(uint64_t value) {
  std::string out;
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
  return out;
}
std::string Number(int field, uint64_t value) { return Varint(field << 3 | 0) + Varint(value); }
std::string Bytes(int field, const std::string& value) {
  return Varint(field << 3 | 2) + Varint(value.size()) + value;
}
std::string Crc(const std::string& four) { return Varint(4 << 3 | 5) + four; }

TEST(PushWireTest, AStockPeerReadsWhatTheEncoderWrites) {
  for (const size_t size : {size_t{1}, size_t{127}, size_t{128}, size_t{20'000}, kMaxPieceBytes}) {
    const std::string data(size, 'x');
    SourceReads reads;
    PushRequest request;
    ASSERT_TRUE(request.ParseFromString(BytesOf(EncodePiece(PieceOf(data), &reads))));
    EXPECT_TRUE(request.GetReflection()->GetUnknownFields(request).empty());
    ExpectSame(PieceOf(data), request.piece());
    EXPECT_EQ(request.ByteSizeLong(), WireOf(data).size());
  }
}

TEST(PushWireTest, ZerosNeedNoFieldsAndReadAsZeros) {
  const std::string data = "x";
  SourceReads reads;
  grpc::ByteBuffer message = EncodePiece({.parts = {std::as_bytes(std::span(data))}}, &reads);
  const std::optional<KvPiece> piece = DecodePiece(&message);
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->ordinal, 0);
  EXPECT_EQ(piece->offset, 0);
  EXPECT_EQ(piece->crc32c, 0u);
  EXPECT_EQ(BytesOf(*piece), data);
}

TEST(PushWireTest, TheMessageRefersToTheSourceAndSaysWhenItNoLongerDoes) {
  const std::string data(1000, 'x');
  SourceReads reads;
  grpc::ByteBuffer message = EncodePiece(PieceOf(data), &reads);
  EXPECT_FALSE(reads.none());
  std::vector<grpc::Slice> slices;
  ASSERT_TRUE(message.Dump(&slices).ok());
  EXPECT_EQ(static_cast<const void*>(slices.back().begin()), data.data());
  message.Clear();
  EXPECT_FALSE(reads.none()) << "a slice is still there";
  slices.clear();
  EXPECT_TRUE(reads.none());
}

TEST(PushWireTest, AStockPeersPieceIsReadInPlace) {
  const std::string wire = WireOf(std::string(1000, 'x'));
  grpc::ByteBuffer message = BufferOf(wire);
  const std::optional<KvPiece> piece = DecodePiece(&message);
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->parts.size(), 1u);
  EXPECT_TRUE(ExpectAgreement(wire));
}

TEST(PushWireTest, SlicesMaySplitTheMessageAnywhere) {
  const std::string wire = WireOf("some bytes of a block");
  for (size_t a = 0; a <= wire.size(); ++a) {
    for (size_t b = a; b <= wire.size(); ++b) {
      ASSERT_TRUE(ExpectAgreement(wire, {a, b})) << a << " and " << b;
    }
  }
  std::vector<size_t> everywhere;
  for (size_t i = 1; i < wire.size(); ++i) everywhere.push_back(i);
  EXPECT_TRUE(ExpectAgreement(wire, everywhere));
}

TEST(PushWireTest, FieldsMayComeInAnyOrderAndTwice) {
  const std::string ordinal = Number(1, 7), offset = Number(2, 9), data = Bytes(3, "abc");
  const std::string crc = Crc("\x01\x02\x03\x04");
  for (const std::string& fields :
       {crc + data + offset + ordinal, data + ordinal + crc + offset, data, std::string(),
        data + Bytes(3, "later") + Number(1, 1) + Number(1, 2), Bytes(3, "")}) {
    EXPECT_TRUE(ExpectAgreement(Bytes(2, fields)));
  }
  // An int32 that was written as a larger number keeps its low bits.
  EXPECT_TRUE(ExpectAgreement(Bytes(2, Number(1, 0xfffffffffffffffeULL) + data)));
  EXPECT_TRUE(ExpectAgreement(Bytes(2, Number(1, 0x500000001ULL) + data)));
}

TEST(PushWireTest, WhatIsNotThePlainFormIsLeftToProtobuf) {
  const std::string piece = Bytes(2, Number(1, 7) + Bytes(3, "abc"));
  for (const std::string& wire :
       {piece + Bytes(99, "unknown"), Bytes(99, "unknown") + piece,
        Bytes(2, Number(1, 7) + Bytes(3, "abc") + Number(77, 5)), Bytes(2, Bytes(1, "wrong type")),
        piece + Bytes(2, Number(2, 5)), piece + Bytes(3, Number(1, 5))}) {
    EXPECT_FALSE(ExpectAgreement(wire));
    grpc::ByteBuffer message = BufferOf(wire);
    PushRequest raw, stock;
    EXPECT_TRUE(ParseMessage(&message, &raw));
    EXPECT_TRUE(stock.ParseFromString(wire));
    EXPECT_EQ(raw.SerializeAsString(), stock.SerializeAsString());
  }
}

TEST(PushWireTest, OtherMessagesAreNoPieces) {
  PushRequest open, progress, commit;
  open.mutable_open()->set_model_fingerprint("f");
  progress.mutable_progress()->set_computed_tokens(5);
  commit.mutable_commit()->set_block_count(3);
  for (const PushRequest& request : {open, progress, commit, PushRequest()}) {
    grpc::ByteBuffer message = EncodeMessage(request);
    EXPECT_FALSE(DecodePiece(&message));
    PushRequest read;
    ASSERT_TRUE(ParseMessage(&message, &read));
    EXPECT_EQ(read.SerializeAsString(), request.SerializeAsString());
  }
}

TEST(PushWireTest, EveryTruncationIsRefused) {
  const std::string wire = WireOf("some bytes of a block");
  for (size_t size = 1; size < wire.size(); ++size) {
    const std::string cut = wire.substr(0, size);
    EXPECT_FALSE(ExpectAgreement(cut, {size / 2})) << size;
    grpc::ByteBuffer message = BufferOf(cut);
    PushRequest request;
    EXPECT_FALSE(ParseMessage(&message, &request)) << size;
  }
}

TEST(PushWireTest, LengthsThatLieAreRefused) {
  const std::string data_tag = Varint(3 << 3 | 2), piece_tag = Varint(2 << 3 | 2);
  const std::string abc = data_tag + Varint(3) + "abc";
  for (const uint64_t length :
       {uint64_t{4}, uint64_t{100}, uint64_t{0x7fffffff}, uint64_t{0x80000000},
        uint64_t{0xffffffff}, uint64_t{0x7fffffffffffffff}, ~uint64_t{0}}) {
    EXPECT_FALSE(ExpectAgreement(Bytes(2, data_tag + Varint(length) + "abc"))) << length;
    EXPECT_FALSE(ExpectAgreement(piece_tag + Varint(length))) << length;
    EXPECT_FALSE(ExpectAgreement(piece_tag + Varint(length + 2) + abc)) << length;
    // `data` must not reach beyond its message into what follows.
    EXPECT_FALSE(ExpectAgreement(Bytes(2, data_tag + Varint(length) + "abc") + "more bytes here"));
  }
  EXPECT_FALSE(ExpectAgreement(piece_tag + Varint(4) + abc)) << "shorter than its fields";
  EXPECT_FALSE(ExpectAgreement(piece_tag + std::string(11, '\xff')));
  EXPECT_FALSE(ExpectAgreement(std::string(1, '\0') + Bytes(2, abc))) << "field number 0";
  // Above the bound of a piece no list of parts is made.
  EXPECT_FALSE(ExpectAgreement(WireOf(std::string(kMaxPieceBytes + 1, 'x'))));
  EXPECT_TRUE(ExpectAgreement(WireOf(std::string(kMaxPieceBytes, 'x'))));
}

// A number with zeros that it does not need, in so many bytes.
std::string LongVarint(uint32_t number, size_t bytes) {
  std::string wire;
  for (size_t i = 0; i < bytes; ++i) {
    wire += static_cast<char>((number >> std::min<size_t>(7 * i, 31) & 0x7f) |
                              (i + 1 < bytes ? 0x80 : 0));
  }
  return wire;
}

TEST(PushWireTest, TagsAndLengthsMayHaveFiveBytes) {
  const uint32_t piece_tag = 2 << 3 | 2, data_tag = 3 << 3 | 2;
  const std::string data = Bytes(3, "abc");
  for (size_t bytes = 1; bytes <= 11; ++bytes) {
    SCOPED_TRACE(bytes);
    const bool right = bytes <= 5;
    EXPECT_EQ(ExpectAgreement(LongVarint(piece_tag, bytes) + Varint(5) + data), right);
    EXPECT_EQ(ExpectAgreement(Varint(piece_tag) + LongVarint(5, bytes) + data), right);
    EXPECT_EQ(ExpectAgreement(Varint(piece_tag) + LongVarint(0, bytes)), right);
    EXPECT_EQ(ExpectAgreement(Bytes(2, LongVarint(data_tag, bytes) + Varint(3) + "abc")), right);
    EXPECT_EQ(ExpectAgreement(Bytes(2, Varint(data_tag) + LongVarint(3, bytes) + "abc")), right);
  }
}

TEST(PushWireTest, DamagedMessagesAreReadAsProtobufReadsThem) {
  constexpr uint32_t kSeed = 20;
  SCOPED_TRACE("seed " + std::to_string(kSeed));
  std::minstd_rand random(kSeed);
  const std::string good = WireOf("some bytes of a block");
  int accepted = 0;
  for (int i = 0; i < 20'000; ++i) {
    std::string wire = good;
    for (uint32_t n = 1 + random() % 3; n > 0; --n) {
      wire[random() % wire.size()] = static_cast<char>(random());
    }
    if (random() % 4 == 0) wire.resize(random() % wire.size());
    const size_t cut = wire.empty() ? 0 : random() % wire.size();
    accepted += ExpectAgreement(wire, {cut});
    ASSERT_FALSE(HasFailure()) << "case " << i;
  }
  EXPECT_GT(accepted, 1000);
  EXPECT_LT(accepted, 19'000);
}

}  // namespace
}  // namespace baton
