#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace baton {

// absl::Status with ErrorDetail <-> grpc::Status with google.rpc details: ErrorInfo (domain
// "baton", reason, values), BadRequest for the field, RetryInfo. The one place where they meet.
grpc::Status ToGrpcStatus(const absl::Status& status);

// What a peer answered. Details of another domain are dropped; code and message stay.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace baton
