#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "common/rust/baton_text.h"

// The types of baton_text.h as C++ ones: owned, and with absl::Status for errors.
namespace baton::rust {

inline BatonSlice SliceOf(std::string_view text) {
  return {reinterpret_cast<const uint8_t*>(text.data()), text.size()};
}

inline std::string_view ViewOf(BatonSlice slice) {
  return {reinterpret_cast<const char*>(slice.data), slice.size};
}

// Frees `buffer`.
inline std::string TakeString(BatonBuffer buffer) {
  std::string text(reinterpret_cast<const char*>(buffer.data), buffer.size);
  baton_buffer_free(buffer);
  return text;
}

// NOT_FOUND, INVALID_ARGUMENT, UNAVAILABLE or INTERNAL with the message of `error`, which is freed.
// Only for a status other than BATON_OK: otherwise there is no message.
inline absl::Status TakeError(BatonStatus status, BatonBuffer error) {
  const std::string message = TakeString(error);
  switch (status) {
    case BATON_NOT_FOUND:
      return absl::NotFoundError(message);
    case BATON_INVALID:
      return absl::InvalidArgumentError(message);
    case BATON_BUSY:
      return absl::UnavailableError(message);
    default:
      return absl::InternalError("panic in the Rust library: " + message);
  }
}

// Owns a handle: `Handle<BatonChat, baton_chat_free>`.
template <auto kFree>
struct Freer {
  template <typename T>
  void operator()(T* handle) const {
    kFree(handle);
  }
};
template <typename T, auto kFree>
using Handle = std::unique_ptr<T, Freer<kFree>>;

}  // namespace baton::rust
