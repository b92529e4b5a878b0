// Requests of clients: from their bytes to what workers are sent.
#include <algorithm>
#include <iterator>
#include <string>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "baton/v1/inference.pb.h"
#include "common/rpc/generation.h"
#include "common/sample/request_limits.h"
#include "common/sched/limits.h"
#include "google/protobuf/stubs/logging.h"
#include "router/edge/request_parse.h"
#include "router/edge/validation.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/wire.h"

namespace baton::fuzz {
namespace {

constexpr int32_t kContext = 4096;
constexpr int32_t kVocab = 512;
// Slices of this size put the ends of fields on both sides of a cut.
constexpr size_t kRequestSlice = 7;

// The most that a message has at `path`, as the table of limits counts it, but read from the
// message instead of the wire.
int64_t Most(const google::protobuf::Message& message, std::string_view path, LimitKind kind) {
  const std::string name(path.substr(0, path.find('.')));
  const auto* field = message.GetDescriptor()->FindFieldByName(name);
  if (field == nullptr) return 0;
  const auto* reflection = message.GetReflection();
  const int size = field->is_repeated() ? reflection->FieldSize(message, field) : 0;
  if (name.size() < path.size()) {
    path.remove_prefix(name.size() + 1);
    if (!field->is_repeated()) return Most(reflection->GetMessage(message, field), path, kind);
    int64_t most = 0;
    for (int i = 0; i < size; ++i) {
      most = std::max(most, Most(reflection->GetRepeatedMessage(message, field, i), path, kind));
    }
    return most;
  }
  if (kind == LimitKind::kCount) return size;
  if (!field->is_repeated()) return std::ssize(reflection->GetString(message, field));
  int64_t most = 0;
  for (int i = 0; i < size; ++i) {
    most = std::max<int64_t>(most, std::ssize(reflection->GetRepeatedString(message, field, i)));
  }
  return most;
}

void CheckWithinLimits(const google::protobuf::Message& request) {
  for (const RequestLimitRow& row : RequestLimits()) {
    if (row.kind == LimitKind::kValue) continue;  // ValidateSpec's to refuse
    const int64_t most = Most(request, row.field, row.kind);
    BATON_CHECK(most <= row.most) << row.field << " has " << most;
  }
}

const ServedModel& Model() {
  static const ServedModel* const model = [] {
    auto* served = new ServedModel;
    served->name = "fuzzed";
    served->config.vocab = kVocab;
    served->chat_template = ChatTemplate::FromSource("{{ messages[0].content }}", "", "").value();
    served->longest_token_bytes = 8;
    return served;
  }();
  return *model;
}

template <typename Request>
RequestInput InputOf(const Request& request) {
  if constexpr (std::is_same_v<Request, v1::ChatGenerateRequest>) {
    std::vector<ChatMessage> messages;
    for (const v1::ChatMessage& message : request.messages()) {
      messages.push_back({message.role(), message.content()});
    }
    return messages;
  } else if (request.has_token_ids()) {
    const auto& ids = request.token_ids().ids();
    return std::vector<TokenId>(ids.begin(), ids.end());
  } else {
    return request.text();
  }
}

// What the router lets pass a worker takes, and understands alike.
void CheckWorkerTakes(RequestSpec spec) {
  const auto* ids = std::get_if<std::vector<TokenId>>(&spec.input);
  spec.prompt = ids != nullptr ? *ids : std::vector<TokenId>{1, 2, 3};
  if (!Accepted(
          FitLengths({.context = kContext, .context_now = kContext, .input = 0, .output = 1024},
                     Model(), &spec))) {
    return;
  }
  SequenceSpec sequence;
  sequence.prompt = spec.prompt;
  sequence.sampling = spec.sampling;
  sequence.stop = spec.stop;
  sequence.cache_salt = spec.cache_salt;
  worker_pb::Generation generation;
  SpecToProto(sequence, &generation);
  const absl::StatusOr<SequenceSpec> received = SpecFromProto(generation);
  BATON_CHECK(received.ok()) << received.status().ToString();
  BATON_CHECK(received->prompt == sequence.prompt && received->sampling == sequence.sampling &&
              received->stop == sequence.stop && received->cache_salt == sequence.cache_salt);
  const absl::Status taken = CheckSpec(
      *received, {.max_model_len = kContext, .pool_tokens = 2 * kContext, .vocab_size = kVocab});
  BATON_CHECK(taken.ok()) << taken.ToString();
}

template <typename Request>
void CheckRequest(std::string_view bytes) {
  Request request;
  if (!Accepted(ParseRequest(ByteBufferOf(bytes, kRequestSlice), &request))) return;
  CheckWithinLimits(request);
  Request again;
  const absl::Status parsed = ParseRequest(SerializeResponse(request), &again);
  BATON_CHECK(parsed.ok()) << parsed.ToString();
  BATON_CHECK(BytesOf(again) == BytesOf(request));
  if constexpr (requires { request.spec(); }) {
    auto spec =
        ValidateSpec(request.spec(), InputOf(request), Model(), RouterOptions{}, /*seed=*/1);
    if (Accepted(spec.status())) CheckWorkerTakes(*std::move(spec));
  }
}

}  // namespace

FUZZ_TARGET(request) {
  // As in the router itself, whose clients must not be able to fill its log.
  google::protobuf::SetLogHandler(nullptr);
  switch (TakeChoice(&input, 5)) {
    case 0:
      return CheckRequest<v1::GenerateRequest>(input);
    case 1:
      return CheckRequest<v1::GenerateOnceRequest>(input);
    case 2:
      return CheckRequest<v1::ChatGenerateRequest>(input);
    case 3:
      return CheckRequest<v1::TokenizeRequest>(input);
    default:
      return CheckRequest<v1::DetokenizeRequest>(input);
  }
}

}  // namespace baton::fuzz
