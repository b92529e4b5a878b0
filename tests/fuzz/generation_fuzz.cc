// What router and workers tell each other about one request, and the trace that it belongs to,
// which clients name, too.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"
#include "baton/worker/v1/decode.pb.h"
#include "baton/worker/v1/generation.pb.h"
#include "common/rpc/generation.h"
#include "common/sched/limits.h"
#include "common/trace/trace_context.h"
#include "google/protobuf/stubs/logging.h"
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

void CheckScores(const worker_pb::PromptScores& message) {
  const PlacedScores scores = ScoresFromProto(message);
  BATON_CHECK(std::ssize(scores.scores) == message.scores_size());
  worker_pb::PromptScores written, rewritten;
  ScoresToProto(scores, &written);
  ScoresToProto(ScoresFromProto(written), &rewritten);
  BATON_CHECK(BytesOf(rewritten) == BytesOf(written));
}

// The router refuses a search that has an answer without tokens or reason; the others it reads as
// they were written.
void CheckBeams(const worker_pb::DecodeFinal& message) {
  std::vector<BeamResult> beams = BeamsFromProto(message.beams());
  BATON_CHECK(std::ssize(beams) == message.beams_size());
  for (int i = 0; i < message.beams_size(); ++i) {
    const auto& beam = beams[static_cast<size_t>(i)];
    BATON_CHECK(std::ranges::equal(beam.tokens, message.beams(i).ids())) << i;
  }
  std::erase_if(beams, [](const BeamResult& beam) {
    return beam.tokens.empty() || beam.reason == FinishReason::kNone;
  });
  worker_pb::DecodeFinal written, rewritten;
  BeamsToProto(beams, written.mutable_beams());
  BeamsToProto(BeamsFromProto(written.beams()), rewritten.mutable_beams());
  BATON_CHECK(BytesOf(rewritten) == BytesOf(written));
  BATON_CHECK(rewritten.beams_size() == std::ssize(beams));
}

// A trace that is taken over is passed on as one that is taken over, the same.
void CheckTrace(std::string_view input) {
  constexpr size_t kMaxStateBytes = 512;
  const std::vector<std::string> parents = absl::StrSplit(std::string(TakeSection(&input)), '\n');
  const std::vector<std::string> states = absl::StrSplit(std::string(input), '\n');
  const std::optional<TraceContext> context = ContextOfHeaders(parents, states);
  BATON_CHECK(!context || parents.size() == 1);
  if (!context) return;
  BATON_CHECK((context->trace_high != 0 || context->trace_low != 0) && context->span != 0);
  BATON_CHECK(context->state.size() <= kMaxStateBytes) << context->state.size();
  BATON_CHECK(std::ranges::all_of(context->state, [](char c) { return ' ' <= c && c <= '~'; }));
  const auto again = ContextOfHeaders({FormatTraceparent(*context)}, {context->state});
  BATON_CHECK(again.has_value() && TraceIdHex(*again) == TraceIdHex(*context));
  BATON_CHECK(again->span == context->span && again->sampled == context->sampled);
  BATON_CHECK(again->state == context->state);
  BATON_CHECK(!SampledByRatio(*context, 0) && SampledByRatio(*context, 1));
  BATON_CHECK(!SampledByRatio(*context, 0.25) || SampledByRatio(*context, 0.5));
}

template <typename Message>
void CheckParsed(std::string_view bytes, void (*check)(const Message&)) {
  Message message;
  if (message.ParseFromArray(bytes.data(), static_cast<int>(bytes.size()))) check(message);
}

}  // namespace

FUZZ_TARGET(generation) {
  google::protobuf::SetLogHandler(nullptr);  // which would tell of every string that is no UTF-8
  switch (TakeChoice(&input, 7)) {
    case 0:
      return CheckParsed(input, CheckGeneration);
    case 1:
      return CheckParsed(input, CheckToken);
    case 2:
      return CheckParsed(input, CheckEnding);
    case 3:
      return CheckParsed(input, CheckTicket);
    case 4:
      return CheckParsed(input, CheckScores);
    case 5:
      return CheckParsed(input, CheckBeams);
    default:
      return CheckTrace(input);
  }
}

}  // namespace baton::fuzz
