#include "router/edge/request_parse.h"

#include <cstdint>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/slice.h"
#include "router/edge/limit_scan.h"

namespace baton {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

constexpr int kMaxDepth = 16;

bool IsUtf8(const std::string& text) {
  return WireFormatLite::VerifyUtf8String(text.data(), static_cast<int>(text.size()),
                                          WireFormatLite::PARSE, nullptr);
}

// The path of the first string field that is not UTF-8; "" when there is none or when the bytes are
// no message at all.
std::string FindBadText(const std::string& bytes, const Descriptor& type, int depth) {
  const auto* data = reinterpret_cast<const uint8_t*>(bytes.data());
  CodedInputStream input(data, static_cast<int>(bytes.size()));
  while (const uint32_t tag = input.ReadTag()) {
    const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    const bool delimited =
        WireFormatLite::GetTagWireType(tag) == WireFormatLite::WIRETYPE_LENGTH_DELIMITED;
    if (field == nullptr || !delimited) {
      if (!WireFormatLite::SkipField(&input, tag)) return "";
      continue;
    }
    std::string content;
    if (!WireFormatLite::ReadBytes(&input, &content)) return "";
    if (field->type() == FieldDescriptor::TYPE_STRING && !IsUtf8(content)) return field->name();
    if (field->type() == FieldDescriptor::TYPE_MESSAGE && depth < kMaxDepth) {
      const std::string inner = FindBadText(content, *field->message_type(), depth + 1);
      if (!inner.empty()) return absl::StrCat(field->name(), ".", inner);
    }
  }
  return "";
}

}  // namespace

absl::Status ParseRequest(const grpc::ByteBuffer& bytes, google::protobuf::Message* request) {
  // gRPC calls without a message where the call ended before it came.
  if (!bytes.Valid()) return absl::CancelledError("the call ended before its message was read");
  grpc::Slice slice;
  if (!bytes.DumpToSingleSlice(&slice).ok()) return absl::InternalError("cannot read the request");
  CodedInputStream input(slice.begin(), static_cast<int>(slice.size()));
  BATON_RETURN_IF_ERROR(ScanLimits(&input, *request->GetDescriptor()));
  if (request->ParseFromArray(slice.begin(), static_cast<int>(slice.size()))) {
    return absl::OkStatus();
  }
  const std::string content(reinterpret_cast<const char*>(slice.begin()), slice.size());
  const std::string field = FindBadText(content, *request->GetDescriptor(), 0);
  if (!field.empty()) {
    return InvalidArgument(Reason::kInvalidText, field,
                           absl::StrCat(field, " is not valid UTF-8; send text as UTF-8"));
  }
  return absl::InvalidArgumentError(
      absl::StrCat("the request does not parse as ", request->GetTypeName(),
                   "; generate the client from proto/baton/v1 of this version"));
}

grpc::ByteBuffer SerializeResponse(const google::protobuf::Message& response) {
  grpc::Slice slice(response.ByteSizeLong());
  auto* begin = const_cast<uint8_t*>(slice.begin());
  BATON_CHECK(response.SerializeToArray(begin, static_cast<int>(slice.size())));
  return grpc::ByteBuffer(&slice, 1);
}

}  // namespace baton
