#pragma once

#include "absl/status/status.h"
#include "google/protobuf/message.h"

namespace baton {

// INVALID_ARGUMENT with the field, as a router says it, when a text of `request` is no UTF-8.
// protobuf would send it nevertheless, and write a line of its own to stderr.
absl::Status CheckTexts(const google::protobuf::Message& request);

}  // namespace baton
