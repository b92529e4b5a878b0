// What router and workers tell each other about one request.
#include <string>

#include "baton/worker/v1/generation.pb.h"
#include "common/rpc/generation.h"
#include "common/sched/limits.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/wire.h"

namespace baton::fuzz {
namespace {

constexpr SequenceLimits kWorkerLimits = {
    .max_model_len = 4096, .pool_tokens = 2048, .vocab_size = 512};

void CheckGeneration(const worker_pb::Generation& message) {
  auto spec = SpecFromProto(message);
  if (!Accepted(spec.status())) return;
  worker_pb::Generation written;
  SpecToProto(*spec, &written);
  const auto again = SpecFromProto(written);
  BATON_CHECK(again.ok()) << again.status().ToString();
  worker_pb::Generation rewritten;
  SpecToProto(*again, &rewritten);
  BATON_CHECK(BytesOf(rewritten) == BytesOf(written));
  for (const SequenceKind kind :
       {SequenceKind::kLocal, SequenceKind::kPrefill, SequenceKind::kReserved}) {
    spec->kind = kind;
    if (!Accepted(CheckSpec(*spec, kWorkerLimits))) continue;
    const int64_t tokens = ResolveMaxTokens(*spec, kWorkerLimits);
    BATON_CHECK(tokens > std::ssize(spec->generated)) << tokens;
    // A prefill draws one token, whatever the request may have elsewhere.
    const int64_t drawn = kind == SequenceKind::kPrefill ? std::ssize(spec->generated) + 1 : tokens;
    BATON_CHECK(std::ssize(spec->prompt) + drawn <= kWorkerLimits.max_model_len) << drawn;
  }
}

void CheckToken(const worker_pb::Token& message) {
  worker_pb::Token written, rewritten;
  TokenToProto(TokenFromProto(message), {.eos_signal = true, .probe = true}, &written);
  TokenToProto(TokenFromProto(written), {.eos_signal = true, .probe = true}, &rewritten);
  BATON_CHECK(BytesOf(rewritten) == BytesOf(written));
}

void CheckEnding(const worker_pb::Ending& message) {
  worker_pb::Ending written, rewritten;
  EndingToProto(EndingFromProto(message), &written);
  EndingToProto(EndingFromProto(written), &rewritten);
  BATON_CHECK(BytesOf(rewritten) == BytesOf(written));
}

void CheckTicket(const worker_pb::Ticket& message) {
  const auto ticket = TicketFromProto(message);
  BATON_CHECK(ticket.has_value() == (message.secret().size() == Ticket::kSecretBytes));
  if (!ticket) return;
  worker_pb::Ticket written;
  TicketToProto(*ticket, &written);
  BATON_CHECK(SameTicket(*TicketFromProto(written), *ticket));
}

template <typename Message>
void CheckParsed(std::string_view bytes, void (*check)(const Message&)) {
  Message message;
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) check(message);
}

}  // namespace

FUZZ_TARGET(generation) {
  switch (TakeChoice(&input, 4)) {
    case 0:
      return CheckParsed(input, CheckGeneration);
    case 1:
      return CheckParsed(input, CheckToken);
    case 2:
      return CheckParsed(input, CheckEnding);
    default:
      return CheckParsed(input, CheckTicket);
  }
}

}  // namespace baton::fuzz
