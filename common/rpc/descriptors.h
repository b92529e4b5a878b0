#pragma once

#include <cstddef>

namespace baton {

// How many files this process may have open.
size_t DescriptorLimit();
// Raises it as far as the system lets it, and returns what it is then.
size_t RaiseDescriptorLimit();

// The files of `limit` that no connection gets, whatever comes: for models, logs and the admin
// page.
size_t FilesKept(size_t limit);
// How many HTTP connections there may be of `wanted`, so that the process has files left for the
// rest of its work, gRPC among it.
size_t ConnectionsWithin(size_t wanted, size_t descriptors);

}  // namespace baton
