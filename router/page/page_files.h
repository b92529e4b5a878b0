#pragma once

#include <span>
#include <string_view>

namespace baton {

// A file of the page as the admin port serves it.
struct PageFile {
  std::string_view path;  // "/page.css"; a .html is served without its ending, index.html at "/"
  std::string_view content_type;
  std::string_view text;
};

// The files of router/page/files, put into the binary by router/page/embed.cmake.
std::span<const PageFile> PageFiles();

}  // namespace baton
