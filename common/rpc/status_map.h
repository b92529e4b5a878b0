#pragma once

#include "absl/status/status.h"
#include "grpcpp/support/status.h"

namespace baton {

// Translates between absl::Status with an ErrorDetail and grpc::Status with google.rpc details:
// ErrorInfo carries the domain "baton", the reason and the values, BadRequest the field, RetryInfo
// the time after which trying again may help. This is the only place where the two meet.
grpc::Status ToGrpcStatus(const absl::Status& status);

// What a peer answered. Details of another domain are dropped; code and message stay.
absl::Status FromGrpcStatus(const grpc::Status& status);

}  // namespace baton
