#pragma once

#include "baton/worker/v1/kv_transfer.grpc.pb.h"
#include "common/transport/pair/pair_acceptor.h"

namespace baton {

using PairServerReactor =
    grpc::ServerBidiReactor<worker::v1::PairRequest, worker::v1::PairResponse>;

// The decode worker's end of one control stream. An `allowed` that is not OK ends it at once, and
// so does a worker without an acceptor. Keeps itself alive until gRPC is done with it; the acceptor
// outlives it.
PairServerReactor* StartPairReactor(PairAcceptor* acceptor, grpc::CallbackServerContext* context,
                                    const absl::Status& allowed);

}  // namespace baton
