#pragma once

#include <cstddef>

namespace baton {

// Raises the limit of open files of this process as far as it may, and returns what it is then.
size_t RaiseDescriptorLimit();

// How many connections there may be of `wanted`, so that the process has files left for the rest of
// its work.
size_t ConnectionsWithin(size_t wanted, size_t descriptors);

}  // namespace baton
