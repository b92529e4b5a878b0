#include "router/edge/request_parse.h"

#include <cstdint>
#include <map>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/status.h"
#include "common/sample/request_limits.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"
#include "google/protobuf/wire_format_lite.h"
#include "grpcpp/support/slice.h"

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

// Holds a request against the table of limits as it stands on the wire. Bytes that are no message
// pass: the parser says so better.
class LimitScan final {
 public:
  // Reads `input` to its end or limit. `prefix` is "" or the path of this message with a dot.
  absl::Status Read(CodedInputStream* input, const Descriptor& type, const std::string& prefix) {
    while (const uint32_t tag = input->ReadTag()) {
      const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
      const std::string path = field == nullptr ? "" : prefix + field->name();
      if (field == nullptr || !IsLimited(path)) {
        if (!WireFormatLite::SkipField(input, tag)) return absl::OkStatus();
        continue;
      }
      BATON_RETURN_IF_ERROR(ReadField(input, tag, *field, path));
    }
    return absl::OkStatus();
  }

 private:
  static bool IsLimited(const std::string& path) {
    for (const RequestLimitRow& row : RequestLimits()) {
      const bool inside = row.field.starts_with(path);
      if (inside && (row.field.size() == path.size() || row.field[path.size()] == '.')) return true;
    }
    return false;
  }

  absl::Status ReadField(CodedInputStream* input, uint32_t tag, const FieldDescriptor& field,
                         const std::string& path) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      WireFormatLite::SkipField(input, tag);
      return Count(path, 1, tag, input);
    }
    uint32_t size = 0;
    if (!input->ReadVarint32(&size)) return absl::OkStatus();
    const CodedInputStream::Limit outer = input->PushLimit(static_cast<int>(size));
    int64_t entries = 1;
    if (field.type() == FieldDescriptor::TYPE_MESSAGE && !field.is_map()) {
      BATON_RETURN_IF_ERROR(Read(input, *field.message_type(), path + "."));
    } else if (field.is_packable()) {
      entries = 0;
      for (uint64_t value = 0; input->BytesUntilLimit() > 0 && input->ReadVarint64(&value);)
        ++entries;
    } else {
      BATON_RETURN_IF_ERROR(CheckRow(path, LimitKind::kBytes, size));
    }
    input->Skip(input->BytesUntilLimit());
    input->PopLimit(outer);
    return Count(path, entries, tag, input);
  }

  // Adds to what the request has of a field. Once that is too much the rest is only counted, so
  // that the error names the whole number.
  absl::Status Count(const std::string& path, int64_t entries, uint32_t tag,
                     CodedInputStream* input) {
    int64_t& count = counts_[path];
    count += entries;
    if (CheckRow(path, LimitKind::kCount, count).ok()) return absl::OkStatus();
    while (const uint32_t next = input->ReadTag()) {
      if (next == tag) ++count;
      if (!WireFormatLite::SkipField(input, next)) break;
    }
    return CheckRow(path, LimitKind::kCount, count);
  }

  static absl::Status CheckRow(std::string_view path, LimitKind kind, int64_t have) {
    for (const RequestLimitRow& row : RequestLimits()) {
      if (row.field == path && row.kind == kind) return CheckLimit(row.limit, have);
    }
    return absl::OkStatus();
  }

  std::map<std::string, int64_t> counts_;  // by path
};

}  // namespace

absl::Status ParseRequest(const grpc::ByteBuffer& bytes, google::protobuf::Message* request) {
  grpc::Slice slice;
  if (!bytes.DumpToSingleSlice(&slice).ok()) return absl::InternalError("cannot read the request");
  CodedInputStream input(slice.begin(), static_cast<int>(slice.size()));
  BATON_RETURN_IF_ERROR(LimitScan().Read(&input, *request->GetDescriptor(), ""));
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
