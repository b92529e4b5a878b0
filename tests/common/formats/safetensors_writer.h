#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

namespace baton::testing {

// The bytes of a .safetensors file with this header, right or wrong.
inline std::string FileOf(std::string_view header, std::string_view data) {
  const uint64_t length = header.size();
  std::string file(sizeof(length), '\0');
  std::memcpy(file.data(), &length, sizeof(length));
  file += header;
  file += data;
  return file;
}

// A file with one U8 tensor whose bytes are `data`.
inline std::string OneTensorFile(const std::string& name, std::string_view data) {
  const std::string size = std::to_string(data.size());
  return FileOf("{\"" + name + "\":{\"dtype\":\"U8\",\"shape\":[" + size +
                    "],\"data_offsets\":[0," + size + "]}}",
                data);
}

}  // namespace baton::testing
