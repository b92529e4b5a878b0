#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/io/zero_copy_stream_impl_lite.h"
#include "google/protobuf/message.h"
#include "grpcpp/support/byte_buffer.h"

namespace baton::fuzz {

// The bytes of a message: equal messages have equal ones, NaNs and maps included.
inline std::string BytesOf(const google::protobuf::Message& message) {
  std::string bytes;
  google::protobuf::io::StringOutputStream stream(&bytes);
  google::protobuf::io::CodedOutputStream out(&stream);
  out.SetSerializationDeterministic(true);
  message.SerializeToCodedStream(&out);
  out.Trim();
  return bytes;
}

// A message as it comes from the network, in slices of at most `slice_bytes`.
inline grpc::ByteBuffer ByteBufferOf(std::string_view bytes, size_t slice_bytes) {
  std::vector<grpc::Slice> slices;
  for (size_t at = 0; at < bytes.size(); at += slice_bytes) {
    const std::string_view slice = bytes.substr(at, slice_bytes);
    slices.emplace_back(slice.data(), slice.size());
  }
  return grpc::ByteBuffer(slices.data(), slices.size());
}

// A byte as a choice among `count`; a digit below `count` chooses itself.
constexpr unsigned ChoiceOf(char byte, unsigned count) {
  return static_cast<unsigned char>(byte - '0') % count;
}
static_assert(ChoiceOf('0', 5) == 0 && ChoiceOf('4', 5) == 4 && ChoiceOf('\xff', 7) < 7);

// Takes the first byte of `input`, a digit in the corpus, as a choice among `count`.
inline unsigned TakeChoice(std::string_view* input, unsigned count) {
  if (input->empty()) return 0;
  const unsigned choice = ChoiceOf(input->front(), count);
  input->remove_prefix(1);
  return choice;
}

}  // namespace baton::fuzz
