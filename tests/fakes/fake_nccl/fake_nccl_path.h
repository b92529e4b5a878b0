#pragma once

#include <string>

namespace baton {

// Where the build put the fake NCCL library.
std::string FakeNcclPath();

}  // namespace baton
