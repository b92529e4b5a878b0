#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace baton {

// The form that files of the predictor have in common: one line
//
//   {"format":"FORMAT","version":1,"sha256":"HEX","body":{…}}
//
// with these keys in this order and without spaces, where `sha256` is over the bytes of the body.

std::string SealJson(std::string_view format, int32_t version, std::string_view body);

// The body of `text`, which refers to it. An error says what was found and what is expected:
// another format, another version, a checksum that does not fit.
absl::StatusOr<std::string_view> OpenSealedJson(std::string_view text, std::string_view format,
                                                int32_t version);

}  // namespace baton
