#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>

namespace baton::base {

// An integer that is only compared, hashed and printed: a BlockId is not a SequenceId is not an
// int. `Tag` makes the type; the default value is `kNone`.
template <typename Tag, typename Rep = int32_t>
class StrongId {
 public:
  static constexpr Rep kNoneValue = std::numeric_limits<Rep>::max();

  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}
  static constexpr StrongId None() { return StrongId(); }

  constexpr Rep value() const { return value_; }
  constexpr bool valid() const { return value_ != kNoneValue; }

  friend constexpr auto operator<=>(StrongId, StrongId) = default;
  template <typename H>
  friend H AbslHashValue(H h, StrongId id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  Rep value_ = kNoneValue;
};

}  // namespace baton::base

template <typename Tag, typename Rep>
struct std::hash<baton::base::StrongId<Tag, Rep>> {
  size_t operator()(baton::base::StrongId<Tag, Rep> id) const {
    return std::hash<Rep>()(id.value());
  }
};
