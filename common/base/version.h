#pragma once

#include <string_view>

namespace baton::base {

// Of the project, as in CMakeLists.txt: "0.1.0".
std::string_view Version();
// That built this binary: "gcc 12.2.0".
std::string_view Compiler();
// "release", "debug", "address sanitizer" or "thread sanitizer".
std::string_view BuildKind();

}  // namespace baton::base
