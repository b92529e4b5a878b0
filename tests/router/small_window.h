#pragma once

#include <memory>

#include "baton/v1/inference.grpc.pb.h"
#include "grpcpp/create_channel.h"
#include "router/router.h"

namespace baton::testing {

// A client whose transport takes 64 KiB at most before somebody reads.
inline std::unique_ptr<v1::InferenceService::Stub> SmallWindowStub(const Router& router) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 << 10);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return v1::InferenceService::NewStub(
      grpc::CreateCustomChannel(router.address(), grpc::InsecureChannelCredentials(), arguments));
}

}  // namespace baton::testing
