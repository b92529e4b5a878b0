#pragma once

#include <string_view>

namespace baton::base {

// The version of the project, as CMakeLists.txt has it: "0.1.0".
std::string_view Version();
// The compiler that built this binary: "gcc 12.2.0".
std::string_view Compiler();
// How this binary was built: "release", "debug", "address sanitizer" or "thread sanitizer".
std::string_view BuildKind();

}  // namespace baton::base
