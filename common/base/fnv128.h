#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

namespace baton {

// The hash FNV-1a (Fowler, Noll, Vo) with 128 bits. It tells apart what differs by accident; it is
// no defence against someone who wants two inputs to agree.
class Fnv128 final {
 public:
  void Add(std::span<const std::byte> bytes);
  // Adds the text's length before the text, so that it is not confused with what follows.
  void Add(std::string_view text);
  std::string Hex() const;  // 32 digits

 private:
  // The offset basis 0x6c62272e07bb014262b821756295c58d.
  unsigned __int128 state_ =
      static_cast<unsigned __int128>(0x6c62272e07bb0142) << 64 | 0x62b821756295c58d;
};

}  // namespace baton
