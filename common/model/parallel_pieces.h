#pragma once

#include <cstddef>

#include "absl/functional/function_ref.h"

namespace baton {

// Calls work(0) … work(count - 1), each once, on up to eight threads of its own, and returns when
// all are done. It is for reading files, which waits for pages, so it does not depend on how many
// threads compute.
void ForEachPiece(size_t count, absl::FunctionRef<void(size_t)> work);

}  // namespace baton
