// The file of keys: each name can be a tenant's, and no key stands in a message.
#include "common/config/tenant_name.h"
#include "router/edge/api_keys.h"
#include "tests/fuzz/fuzz_target.h"

namespace baton::fuzz {

FUZZ_TARGET(api_keys) {
  const auto keys = ApiKeys::Parse(input);
  if (!Accepted(keys.status())) return;
  BATON_CHECK(keys->size() > 0);
  for (size_t at = 0; at < input.size(); ++at) {
    if (input[at] != ':') continue;
    const std::string_view rest = input.substr(at + 1);
    const auto name = keys->NameOf(rest.substr(0, rest.find_first_of("\r\n")));
    if (name) BATON_CHECK(IsTenantName(*name)) << *name;
  }
}

}  // namespace baton::fuzz
