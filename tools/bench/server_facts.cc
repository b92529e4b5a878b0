#include "tools/bench/server_facts.h"

#include <chrono>
#include <memory>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "baton/v1/inference.grpc.pb.h"
#include "baton/v1/model.grpc.pb.h"
#include "common/base/status.h"
#include "common/rpc/channel.h"
#include "common/rpc/status_map.h"
#include "common/text/tokenizer.h"
#include "grpcpp/grpcpp.h"
#include "tools/bench/client/openai_target.h"

namespace baton::bench {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);

// Prose with the mix of short and long words, names, numbers and punctuation of ordinary writing.
constexpr std::string_view kProse =
    "The harbour was quiet when the last ferry came in. Eleven people stepped off, and most of "
    "them hurried up the hill, where the windows of the old hotel were still lit. Margaret stayed "
    "behind for a moment; she had promised her brother that she would look at the engine before "
    "winter, and it was already October. \"You will need a new pump,\" she said at last, wiping "
    "her "
    "hands on a piece of cloth, \"and somebody who understands electricity.\" He laughed. Between "
    "them lay forty years of repairs, three ships, and an argument about money that neither could "
    "remember exactly. In the morning the fog would return, the market would open at half past "
    "six, "
    "and everything would smell of coffee, fish and wet rope, as it always had.";

int WordsIn(std::string_view text) {
  int words = 0;
  bool inside = false;
  for (const char c : text) {
    if (c != ' ' && !inside) ++words;
    inside = c != ' ';
  }
  return words;
}

void SetDeadline(grpc::ClientContext* context) {
  context->set_deadline(std::chrono::system_clock::now() + kPatience);
}

absl::Status NobodyThere(const std::string& server, std::string_view why) {
  return absl::UnavailableError(absl::StrCat("no answer from ", server, " (", std::string(why),
                                             "); start a server there, e.g. ",
                                             "baton serve DIR, or name another with --server"));
}

absl::StatusOr<ServerFacts> AskBaton(const BenchFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const auto channel,
                         MakeChannel(flags.client.server, ChannelOptionsOf(flags.client)));
  const auto stub = v1::ModelService::NewStub(channel);
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::GetModelInfoRequest request;
  request.set_model(flags.model);
  v1::GetModelInfoResponse info;
  const absl::Status status = FromGrpcStatus(stub->GetModelInfo(&context, request, &info));
  if (absl::IsUnavailable(status) || absl::IsDeadlineExceeded(status)) {
    return NobodyThere(flags.client.server, {status.message().data(), status.message().size()});
  }
  BATON_RETURN_IF_ERROR(status);
  ServerFacts facts = {.model = info.name(),
                       .vocab_size = info.vocab_size(),
                       .excluded_ids = {},
                       .max_model_len = info.max_model_len()};
  for (const v1::EosToken& token : info.eos_tokens()) facts.excluded_ids.push_back(token.id());
  return facts;
}

absl::StatusOr<std::string> FirstOpenAiModel(const BenchFlags& flags) {
  BATON_ASSIGN_OR_RETURN(const auto target,
                         OpenAiTarget::Make({.base_url = flags.client.server,
                                             .api_key = OpenAiKeyOf(flags.client),
                                             .tls = ChannelOptionsOf(flags.client).tls,
                                             .connect_timeout = kPatience}));
  return target->FirstModel();
}

absl::StatusOr<ServerFacts> AskOpenAi(const BenchFlags& flags) {
  ServerFacts facts;
  facts.model = flags.model;
  if (facts.model.empty()) {
    BATON_ASSIGN_OR_RETURN(facts.model, FirstOpenAiModel(flags));
  }
  if (flags.vocab_size) facts.vocab_size = *flags.vocab_size;
  if (flags.tokenizer.empty()) return facts;
  BATON_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(flags.tokenizer));
  if (facts.vocab_size == 0) facts.vocab_size = tokenizer->vocab_size();
  for (TokenId id = 0; id < tokenizer->vocab_size(); ++id) {
    if (tokenizer->IsSpecial(id) || !tokenizer->IsValid(id)) facts.excluded_ids.push_back(id);
  }
  return facts;
}

absl::StatusOr<int> CountByServer(const BenchFlags& flags, const ServerFacts& facts) {
  BATON_ASSIGN_OR_RETURN(const auto channel,
                         MakeChannel(flags.client.server, ChannelOptionsOf(flags.client)));
  const auto stub = v1::InferenceService::NewStub(channel);
  grpc::ClientContext context;
  SetDeadline(&context);
  v1::TokenizeRequest request;
  request.set_model(facts.model);
  request.set_text(std::string(kProse));
  request.set_add_special_tokens(false);
  v1::TokenizeResponse response;
  BATON_RETURN_IF_ERROR(FromGrpcStatus(stub->Tokenize(&context, request, &response)));
  return response.token_ids_size();
}

absl::StatusOr<int> CountHere(const std::string& model_dir) {
  BATON_ASSIGN_OR_RETURN(const auto tokenizer, LoadTokenizer(model_dir));
  BATON_ASSIGN_OR_RETURN(const auto ids, tokenizer->Encode(kProse, false));
  return static_cast<int>(ids.size());
}

}  // namespace

absl::StatusOr<ServerFacts> AskServer(const BenchFlags& flags) {
  return flags.protocol == Protocol::kBaton ? AskBaton(flags) : AskOpenAi(flags);
}

absl::StatusOr<double> MeasureTokensPerWord(const BenchFlags& flags, const ServerFacts& facts) {
  int tokens = 0;
  if (!flags.tokenizer.empty()) {
    BATON_ASSIGN_OR_RETURN(tokens, CountHere(flags.tokenizer));
  } else if (flags.protocol == Protocol::kBaton) {
    BATON_ASSIGN_OR_RETURN(tokens, CountByServer(flags, facts));
  } else {
    return absl::FailedPreconditionError(
        "--slo reader=… needs tokens per word, which this server does not tell; give --tokenizer");
  }
  return static_cast<double>(tokens) / WordsIn(kProse);
}

}  // namespace baton::bench
