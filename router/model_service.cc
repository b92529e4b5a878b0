#include "router/model_service.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "common/rpc/status_map.h"
#include "router/edge/request_parse.h"
#include "router/edge/validation.h"

namespace baton {
namespace {

// More than the longest name of a model that a file system would take.
constexpr size_t kMostBytes = 4096;

v1::EosTokenSource SourceToProto(const std::string& source) {
  // A GGUF file names it by a key of its tokenizer, or knows it by the token's text.
  const bool gguf = source.starts_with("tokenizer.ggml.") || source == "its text";
  if (gguf || source == "tokenizer") return v1::EOS_TOKEN_SOURCE_TOKENIZER;
  if (source == "config.json") return v1::EOS_TOKEN_SOURCE_CONFIG;
  if (source == "generation_config.json") return v1::EOS_TOKEN_SOURCE_GENERATION_CONFIG;
  return v1::EOS_TOKEN_SOURCE_UNSPECIFIED;
}

void FillModel(const ServedModel& model, v1::GetModelInfoResponse* out) {
  out->set_name(model.name);
  out->set_architecture(model.config.architecture);
  out->set_max_model_len(model.config.max_positions);
  out->set_vocab_size(model.config.vocab);
  out->set_layers(model.config.layers);
  out->set_chat_template_present(model.chat_template != nullptr);
  for (const EosSetEntry& entry : model.eos) {
    v1::EosToken* token = out->add_eos_tokens();
    token->set_id(entry.id);
    token->set_text(entry.text);
    for (const std::string& source : entry.sources) {
      const v1::EosTokenSource kind = SourceToProto(source);
      if (std::ranges::find(token->sources(), kind) != token->sources().end()) continue;
      token->add_sources(kind);
    }
  }
  const SamplingParams sampling = model.DefaultSampling();
  v1::SamplingDefaults* defaults = out->mutable_default_sampling();
  defaults->set_temperature(sampling.temperature);
  defaults->set_top_p(sampling.top_p);
  defaults->set_top_k(sampling.top_k);
  defaults->set_min_p(sampling.min_p);
  defaults->set_repetition_penalty(sampling.repetition_penalty);
}

}  // namespace

absl::Status ModelServiceImpl::Read(const grpc::CallbackServerContext& context,
                                    const grpc::ByteBuffer& bytes,
                                    google::protobuf::Message* request) const {
  BATON_RETURN_IF_ERROR(CallerOf(context, callers_).status());
  if (bytes.Length() <= kMostBytes) return ParseRequest(bytes, request);
  return MakeError(
      absl::StatusCode::kInvalidArgument,
      {.reason = Reason::kLimitExceeded,
       .values = {{"have", absl::StrCat(bytes.Length())}, {"limit", absl::StrCat(kMostBytes)}}},
      absl::StrCat("the message has ", bytes.Length(), " bytes; one to this service has at most ",
                   kMostBytes, "; send the name of a model or nothing"));
}

grpc::ServerUnaryReactor* ModelServiceImpl::ListModels(grpc::CallbackServerContext* context,
                                                       const grpc::ByteBuffer* request,
                                                       grpc::ByteBuffer* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  v1::ListModelsRequest message;
  const absl::Status read = Read(*context, *request, &message);
  if (read.ok()) {
    v1::ListModelsResponse answer;
    answer.add_names(model_.name);
    *response = SerializeResponse(answer);
  }
  reactor->Finish(ToGrpcStatus(read));
  return reactor;
}

grpc::ServerUnaryReactor* ModelServiceImpl::GetModelInfo(grpc::CallbackServerContext* context,
                                                         const grpc::ByteBuffer* request,
                                                         grpc::ByteBuffer* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  v1::GetModelInfoRequest message;
  absl::Status status = Read(*context, *request, &message);
  if (status.ok()) status = CheckModelName(message.model(), model_);
  if (status.ok()) *response = SerializeResponse(Describe());
  reactor->Finish(ToGrpcStatus(status));
  return reactor;
}

v1::GetModelInfoResponse ModelServiceImpl::Describe() const {
  v1::GetModelInfoResponse info;
  FillModel(model_, &info);
  directory_->Use([&](const WorkerDirectory::Tables& tables) {
    const auto workers = tables.workers.Healthy(WorkerKind::kDecode, tables.now);
    if (workers.empty()) return;
    info.set_compute_dtype(workers.front()->facts.compute_dtype);
    info.set_fingerprint(workers.front()->facts.fingerprint);
    info.set_kv_block_size(workers.front()->facts.layout.block_size);
    int64_t blocks = 0;
    for (const WorkerView* view : workers) blocks += view->blocks_total;
    info.set_kv_blocks(blocks);
    info.set_max_model_len(static_cast<int32_t>(tables.workers.HealthyContext(tables.now)));
  });
  return info;
}

}  // namespace baton
