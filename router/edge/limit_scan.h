#pragma once

#include "absl/status/status.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/io/coded_stream.h"

namespace baton {

// Holds a request of that type against the table of limits (common/sample/request_limits.h) as it
// stands on the wire, without copying any of it: INVALID_ARGUMENT, LIMIT_EXCEEDED, also when it has
// thousands of fields that this version does not know, which the parser would keep one by one.
// Bytes that are no message pass: the parser says so better.
absl::Status ScanLimits(google::protobuf::io::CodedInputStream* input,
                        const google::protobuf::Descriptor& type);

}  // namespace baton
