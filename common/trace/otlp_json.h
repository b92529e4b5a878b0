#pragma once

#include <memory>
#include <string>
#include <vector>

#include "common/trace/span_tree.h"

namespace baton {

// The process that spans come from.
using TraceResource = std::vector<SpanAttribute>;

// An ExportTraceServiceRequest of OTLP in its JSON form: ids in hexadecimal, 64-bit integers as
// strings, enumerations as numbers. Text that is no UTF-8 has U+FFFD in the place of what is not.
std::string OtlpJson(const TraceResource& resource,
                     const std::vector<std::unique_ptr<const SpanTree>>& trees);

}  // namespace baton
