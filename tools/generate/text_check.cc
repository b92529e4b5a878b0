#include "tools/generate/text_check.h"

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/stubs/common.h"

namespace baton {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::internal::IsStructurallyValidUTF8;

bool IsUtf8(const std::string& text) {
  return IsStructurallyValidUTF8(text.data(), static_cast<int>(text.size()));
}

// The path of the first field of `message` with a text that is no UTF-8; "" = there is none.
std::string FindBadText(const Message& message) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const bool list = field->is_repeated();
    const int count = list ? reflection.FieldSize(message, field) : 1;
    for (int i = 0; i < count; ++i) {
      if (field->type() == FieldDescriptor::TYPE_STRING) {
        const std::string text = list ? reflection.GetRepeatedString(message, field, i)
                                      : reflection.GetString(message, field);
        if (!IsUtf8(text)) return field->name();
      } else if (field->type() == FieldDescriptor::TYPE_MESSAGE) {
        const std::string inner =
            FindBadText(list ? reflection.GetRepeatedMessage(message, field, i)
                             : reflection.GetMessage(message, field));
        if (!inner.empty()) return absl::StrCat(field->name(), ".", inner);
      }
    }
  }
  return "";
}

}  // namespace

absl::Status CheckTexts(const Message& request) {
  const std::string field = FindBadText(request);
  if (field.empty()) return absl::OkStatus();
  return InvalidArgument(Reason::kInvalidText, field,
                         absl::StrCat(field, " is not valid UTF-8; send text as UTF-8"));
}

}  // namespace baton
