#pragma once

#include <string_view>

// The files of router/page/files, put into the binary by router/page/embed.cmake.
namespace baton {

extern const std::string_view kPageHtml, kPageCss, kPageScript;

}  // namespace baton
