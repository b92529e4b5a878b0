#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"

namespace baton {

// A key of a configuration file with its value as text, or the beginning of a section.
struct FileKey {
  int line = 0;                       // from 1
  std::vector<std::string> sections;  // [tenant.a] is "tenant", "a"; empty at the top
  std::string name;                   // empty where a section begins
  bool opens_section = false;
  bool is_list = false;
  std::vector<std::string> values;  // one, unless it is a list
  std::string not_text;             // what stands in place of a value: "a date"; else empty
};

// The keys of a TOML file in the order of its lines. An error says where the file is no TOML and
// why: "FILE:3:7: ...".
absl::StatusOr<std::vector<FileKey>> ReadTomlFile(const std::string& path);

}  // namespace baton
