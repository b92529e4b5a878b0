#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace baton {

// Names a reservation: the only name and the only authority of a push. Never logged, so it has no
// printer.
struct Ticket {
  static constexpr size_t kSecretBytes = 16;

  uint64_t incarnation = 0;  // of the decode worker that granted it
  std::array<uint8_t, kSecretBytes> secret{};

  // A fresh secret from the operating system.
  static Ticket Draw(uint64_t incarnation);
  // Empty unless `secret` has exactly kSecretBytes bytes.
  static std::optional<Ticket> FromWire(uint64_t incarnation, std::string_view secret);
  std::string SecretBytes() const;
};

// Takes the same time whatever the secrets hold.
bool SameTicket(const Ticket& a, const Ticket& b);

// NOT_FOUND, in the same words for a ticket that is forged, expired, used or of another worker.
absl::Status UnknownTicket();

// 64 random bits from the operating system: an incarnation.
uint64_t RandomBits();

}  // namespace baton
