#pragma once

#include "absl/status/status.h"
#include "baton/v1/model.grpc.pb.h"
#include "router/edge/caller.h"
#include "router/edge/served_model.h"
#include "router/workers/worker_directory.h"

namespace baton {

// Its methods take bytes, so that a large message is refused before anything is made of it.
using RawModelService = v1::ModelService::WithRawCallbackMethod_ListModels<
    v1::ModelService::WithRawCallbackMethod_GetModelInfo<v1::ModelService::Service>>;

// Implements baton.v1.ModelService, which tells facts about the one served model.
class ModelServiceImpl final : public RawModelService {
 public:
  // Model and directory must outlive this.
  ModelServiceImpl(const ServedModel& model, WorkerDirectory* directory, const CallerRules& callers)
      : model_(model), directory_(directory), callers_(callers) {}

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const grpc::ByteBuffer* request,
                                       grpc::ByteBuffer* response) override;
  grpc::ServerUnaryReactor* GetModelInfo(grpc::CallbackServerContext* context,
                                         const grpc::ByteBuffer* request,
                                         grpc::ByteBuffer* response) override;

 private:
  // Looks at the caller, then reads `bytes`.
  absl::Status Read(const grpc::CallbackServerContext& context, const grpc::ByteBuffer& bytes,
                    google::protobuf::Message* request) const;
  // The model, and what its workers can do now.
  v1::GetModelInfoResponse Describe() const;

  const ServedModel& model_;
  WorkerDirectory* const directory_;
  const CallerRules callers_;
};

}  // namespace baton
