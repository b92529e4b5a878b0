#include "router/edge/limit_scan.h"

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/sample/request_limits.h"
#include "google/protobuf/wire_format_lite.h"

namespace baton {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::internal::WireFormatLite;
using google::protobuf::io::CodedInputStream;

// Clients of a later version send a few.
constexpr int64_t kMostUnknownFields = 1024;

// A type of message and all that may be in it, with the rows of the table where they apply.
struct ScannedMessage {
  struct Field {
    const RequestLimitRow* count = nullptr;  // null: no limit
    const RequestLimitRow* bytes = nullptr;  // likewise
    size_t slot = 0;                         // of its count
    bool packable = false;
    std::unique_ptr<ScannedMessage> inside;  // of messages, but for maps
  };
  std::string prefix;                      // of the paths of its fields: "" or with a dot
  absl::flat_hash_map<int, Field> fields;  // by number
};

// A request's type and how many fields it has in all.
struct ScannedRequest {
  ScannedMessage message;
  size_t slots = 0;
};

const RequestLimitRow* RowOf(std::string_view path, LimitKind kind) {
  for (const RequestLimitRow& row : RequestLimits()) {
    if (row.field == path && row.kind == kind) return &row;
  }
  return nullptr;
}

// No request has a message inside itself.
void Describe(const Descriptor& type, const std::string& prefix, ScannedMessage* message,
              size_t* slots) {
  message->prefix = prefix;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& each = *type.field(i);
    const std::string path = prefix + each.name();
    ScannedMessage::Field& field = message->fields[each.number()];
    field.count = RowOf(path, LimitKind::kCount);
    field.bytes = RowOf(path, LimitKind::kBytes);
    field.slot = (*slots)++;
    field.packable = each.is_packable();
    if (each.type() != FieldDescriptor::TYPE_MESSAGE || each.is_map()) continue;
    field.inside = std::make_unique<ScannedMessage>();
    Describe(*each.message_type(), path + ".", field.inside.get(), slots);
  }
}

// Made once for each type, and kept.
const ScannedRequest& ScannedRequestOf(const Descriptor& type) {
  static base::Mutex mutex;
  static auto* const known =
      new absl::flat_hash_map<const Descriptor*, std::unique_ptr<const ScannedRequest>>();
  base::MutexLock lock(&mutex);
  auto& found = (*known)[&type];
  if (found == nullptr) {
    auto made = std::make_unique<ScannedRequest>();
    Describe(type, "", &made->message, &made->slots);
    found = std::move(made);
  }
  return *found;
}

class LimitScan final {
 public:
  explicit LimitScan(size_t slots) : counts_(slots) {}

  // Reads all of `input`.
  absl::Status ReadAll(CodedInputStream* input, const ScannedMessage& message) {
    BATON_RETURN_IF_ERROR(Read(input, message));
    return CheckUnknown();
  }

 private:
  // Reads `input` to its end or limit.
  absl::Status Read(CodedInputStream* input, const ScannedMessage& message) {
    while (const uint32_t tag = input->ReadTag()) {
      const int number = WireFormatLite::GetTagFieldNumber(tag);
      const auto found = message.fields.find(number);
      if (found == message.fields.end()) {
        CountUnknown(message, number);
        if (!WireFormatLite::SkipField(input, tag)) return absl::OkStatus();
        continue;
      }
      BATON_RETURN_IF_ERROR(ReadField(input, tag, found->second));
    }
    return absl::OkStatus();
  }

  absl::Status ReadField(CodedInputStream* input, uint32_t tag,
                         const ScannedMessage::Field& field) {
    if (WireFormatLite::GetTagWireType(tag) != WireFormatLite::WIRETYPE_LENGTH_DELIMITED) {
      WireFormatLite::SkipField(input, tag);
      return Count(field, 1, tag, input);
    }
    uint32_t size = 0;
    if (!input->ReadVarint32(&size)) return absl::OkStatus();
    const CodedInputStream::Limit outer = input->PushLimit(static_cast<int>(size));
    int64_t entries = 1;
    if (field.inside != nullptr) {
      BATON_RETURN_IF_ERROR(Read(input, *field.inside));
    } else if (field.packable && field.count != nullptr) {
      entries = 0;
      for (uint64_t value = 0; input->BytesUntilLimit() > 0 && input->ReadVarint64(&value);)
        ++entries;
    } else if (field.bytes != nullptr) {
      BATON_RETURN_IF_ERROR(CheckLimit(field.bytes->limit, size));
    }
    input->Skip(input->BytesUntilLimit());
    input->PopLimit(outer);
    return Count(field, entries, tag, input);
  }

  // Adds to what the request has of a field. Once that is too much the rest is only counted, so
  // that the error names the whole number.
  absl::Status Count(const ScannedMessage::Field& field, int64_t entries, uint32_t tag,
                     CodedInputStream* input) {
    if (field.count == nullptr) return absl::OkStatus();
    int64_t& count = counts_[field.slot];
    count += entries;
    if (count <= field.count->most) return absl::OkStatus();
    while (const uint32_t next = input->ReadTag()) {
      if (next == tag) ++count;
      if (!WireFormatLite::SkipField(input, next)) break;
    }
    return CheckLimit(field.count->limit, count);
  }

  // Protobuf's own way to name a field without a name is its number.
  void CountUnknown(const ScannedMessage& message, int number) {
    if (++unknown_ == kMostUnknownFields + 1) unknown_field_ = absl::StrCat(message.prefix, number);
  }

  absl::Status CheckUnknown() const {
    if (unknown_ <= kMostUnknownFields) return absl::OkStatus();
    return MakeError(
        absl::StatusCode::kInvalidArgument,
        {.reason = Reason::kLimitExceeded,
         .field = unknown_field_,
         .values = {{"have", absl::StrCat(unknown_)}, {"limit", absl::StrCat(kMostUnknownFields)}}},
        absl::StrCat("the request has ", unknown_, " fields that this version does not know, as ",
                     unknown_field_, "; the limit of a request is ", kMostUnknownFields,
                     "; generate the client from proto/baton/v1 of this version"));
  }

  std::vector<int64_t> counts_;  // by slot
  int64_t unknown_ = 0;
  std::string unknown_field_;  // the first one too many
};

}  // namespace

absl::Status ScanLimits(CodedInputStream* input, const Descriptor& type) {
  const ScannedRequest& request = ScannedRequestOf(type);
  return LimitScan(request.slots).ReadAll(input, request.message);
}

}  // namespace baton
