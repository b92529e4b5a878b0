#include "common/base/ticket.h"

#include <sys/random.h>

#include <cstring>

#include "common/base/check.h"
#include "common/base/status.h"

namespace baton {
namespace {

void FillRandom(void* data, size_t size) {
  // getrandom gives up to 256 bytes in one uninterrupted call.
  const ssize_t got = getrandom(data, size, 0);
  BATON_CHECK(got == static_cast<ssize_t>(size)) << "getrandom gave " << got << " of " << size;
}

}  // namespace

Ticket Ticket::Draw(uint64_t incarnation) {
  Ticket ticket;
  ticket.incarnation = incarnation;
  FillRandom(ticket.secret.data(), ticket.secret.size());
  return ticket;
}

std::optional<Ticket> Ticket::FromWire(uint64_t incarnation, std::string_view secret) {
  if (secret.size() != kSecretBytes) return std::nullopt;
  Ticket ticket;
  ticket.incarnation = incarnation;
  std::memcpy(ticket.secret.data(), secret.data(), kSecretBytes);
  return ticket;
}

std::string Ticket::SecretBytes() const { return std::string(secret.begin(), secret.end()); }

bool SameTicket(const Ticket& a, const Ticket& b) {
  uint64_t difference = a.incarnation ^ b.incarnation;
  for (size_t i = 0; i < Ticket::kSecretBytes; ++i) {
    difference |= static_cast<uint64_t>(a.secret[i] ^ b.secret[i]);
  }
  return difference == 0;
}

absl::Status UnknownTicket() {
  return MakeError(absl::StatusCode::kNotFound, {.reason = Reason::kUnknownTicket},
                   "this worker has no open reservation of that ticket; open a new attempt");
}

uint64_t RandomBits() {
  uint64_t bits = 0;
  FillRandom(&bits, sizeof(bits));
  return bits;
}

}  // namespace baton
