#pragma once

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace baton {

// What a command says of the address that it takes.
struct AddressWords {
  std::string_view named_by = "with --server";
  // What to do where the certificate there names another role than the command expects.
  std::string_view other_role = "name a router, whose certificate has that role, with --server";
};

// What a user is told whose call ended in `status` before the server at `address` said a word: as
// it is, or where nobody answered, with what to do about it. `status` is no success.
absl::Status ExplainNoServer(const absl::Status& status, const std::string& address,
                             const AddressWords& words = {});

}  // namespace baton
