#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace baton {

// What a user is told whose call ended in `status` before the server at `address` said a word: as
// it is, or where nobody answered, with what to do about it. `status` is no success. `named_by`
// says how the command takes an address.
absl::Status ExplainNoServer(const absl::Status& status, const std::string& address,
                             std::string_view named_by = "with --server");

}  // namespace baton
