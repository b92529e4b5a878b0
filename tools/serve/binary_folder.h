#pragma once

#include <filesystem>

namespace baton {

// The folder of Baton's other binaries: BATON_BIN_DIR, or else that of this one.
std::filesystem::path BinaryFolder();

}  // namespace baton
