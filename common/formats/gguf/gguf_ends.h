#pragma once

#include <string_view>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "common/base/ids.h"

namespace baton {

// The tokens whose texts end an answer in every model that has them, whatever the file says of
// their types. `ids` are the tokens in use by their texts. The rule is that of llama.cpp, but for
// its tokens of code infilling.
std::vector<TokenId> GgufEndsByText(const absl::flat_hash_map<std::string_view, TokenId>& ids);

}  // namespace baton
