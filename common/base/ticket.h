#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace baton {

// Names a reservation. It is the only name and the only authority of a push, so it is never logged
// and has no printer.
struct Ticket {
  static constexpr size_t kSecretBytes = 16;

  uint64_t incarnation = 0;  // of the decode worker that granted it
  std::array<uint8_t, kSecretBytes> secret{};

  // Makes a ticket with a fresh secret from the operating system.
  static Ticket Draw(uint64_t incarnation);
  // Empty unless `secret` has exactly kSecretBytes bytes.
  static std::optional<Ticket> FromWire(uint64_t incarnation, std::string_view secret);
  std::string SecretBytes() const;
};

// Compares two tickets in a time that does not depend on what the secrets hold.
bool SameTicket(const Ticket& a, const Ticket& b);

// NOT_FOUND, in the same words for a ticket that is forged, expired, used or of another worker.
absl::Status UnknownTicket();

// Draws 64 random bits from the operating system, as an incarnation is made of.
uint64_t RandomBits();

}  // namespace baton
