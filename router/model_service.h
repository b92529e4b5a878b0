#pragma once

#include "baton/v1/model.grpc.pb.h"
#include "router/edge/caller.h"
#include "router/edge/served_model.h"
#include "router/workers/worker_directory.h"

namespace baton {

// Implements baton.v1.ModelService, which tells facts about the one served model.
class ModelServiceImpl final : public v1::ModelService::CallbackService {
 public:
  // Model and directory must outlive this.
  ModelServiceImpl(const ServedModel& model, WorkerDirectory* directory, const CallerRules& callers)
      : model_(model), directory_(directory), callers_(callers) {}

  grpc::ServerUnaryReactor* ListModels(grpc::CallbackServerContext* context,
                                       const v1::ListModelsRequest* request,
                                       v1::ListModelsResponse* response) override;
  grpc::ServerUnaryReactor* GetModelInfo(grpc::CallbackServerContext* context,
                                         const v1::GetModelInfoRequest* request,
                                         v1::GetModelInfoResponse* response) override;

 private:
  const ServedModel& model_;
  WorkerDirectory* const directory_;
  const CallerRules callers_;
};

}  // namespace baton
