#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"

namespace baton {

// Calls work(0) … work(count - 1), each once, on up to eight threads of its own: for the reading of
// files, which waits for pages, whatever threads compute. Returns when all are done.
void ForEachPiece(size_t count, absl::FunctionRef<void(size_t)> work);

}  // namespace baton
