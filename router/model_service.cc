#include "router/model_service.h"

#include <algorithm>
#include <string>

#include "common/rpc/status_map.h"
#include "router/edge/validation.h"

namespace baton {
namespace {

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

grpc::ServerUnaryReactor* ModelServiceImpl::ListModels(grpc::CallbackServerContext* context,
                                                       const v1::ListModelsRequest* /*request*/,
                                                       v1::ListModelsResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  const absl::Status caller = CallerOf(*context, callers_).status();
  if (caller.ok()) response->add_names(model_.name);
  reactor->Finish(ToGrpcStatus(caller));
  return reactor;
}

grpc::ServerUnaryReactor* ModelServiceImpl::GetModelInfo(grpc::CallbackServerContext* context,
                                                         const v1::GetModelInfoRequest* request,
                                                         v1::GetModelInfoResponse* response) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  absl::Status allowed = CallerOf(*context, callers_).status();
  if (allowed.ok()) allowed = CheckModelName(request->model(), model_);
  if (!allowed.ok()) {
    reactor->Finish(ToGrpcStatus(allowed));
    return reactor;
  }
  FillModel(model_, response);
  directory_->Use([&](const WorkerDirectory::Tables& tables) {
    const auto workers = tables.workers.Healthy(WorkerKind::kDecode, tables.now);
    if (workers.empty()) return;
    response->set_compute_dtype(workers.front()->facts.compute_dtype);
    response->set_fingerprint(workers.front()->facts.fingerprint);
    response->set_kv_block_size(workers.front()->facts.layout.block_size);
    int64_t blocks = 0;
    for (const WorkerView* view : workers) blocks += view->blocks_total;
    response->set_kv_blocks(blocks);
    response->set_max_model_len(static_cast<int32_t>(tables.workers.HealthyContext(tables.now)));
  });
  reactor->Finish(grpc::Status::OK);
  return reactor;
}

}  // namespace baton
