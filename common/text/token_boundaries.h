#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "common/base/token_boundary.h"
#include "common/text/tokenizer.h"

namespace baton {

// The bits of a token of these bytes. It ends a line when they contain '\n'. It ends a sentence
// when, without trailing spaces, tabs, line ends, quotes, closing brackets and * _ `, something is
// left that ends with one of . ! ? … 。 ！ ？. A mark whose bytes are spread over several tokens is
// not seen.
uint8_t BoundaryOfBytes(std::string_view bytes);

// The table of `tokenizer`, by id: [vocab_size].
std::vector<uint8_t> TokenBoundaries(const Tokenizer& tokenizer);

}  // namespace baton
