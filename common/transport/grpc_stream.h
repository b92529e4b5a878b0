#pragma once

#include <functional>
#include <memory>
#include <string>

#include "common/base/clock.h"
#include "common/rpc/channel_opener.h"
#include "common/transport/block_access.h"
#include "common/transport/kv_transport.h"
#include "common/transport/transport_probe.h"

namespace grpc {
class Service;
}  // namespace grpc

namespace baton {

class LivePushCount;
class PairAcceptor;

// Sends KV blocks as pieces of at most 1 MiB, on one KvTransferService.Push stream for each push.
// One write and one read are outstanding, so that HTTP/2 is the flow control. Works between any two
// machines.
class GrpcStreamTransport final : public KvTransport {
 public:
  // `clock`, and `blocks`, which reads the sources, outlive the transport and its pushes. `probe`,
  // if there is one, is told of each push; it outlives the transport.
  GrpcStreamTransport(ChannelOptions options, const base::Clock* clock,
                      const BlockAccess* blocks = &HostBlocks(), TransportProbe* probe = nullptr);
  // Waits for its pushes, which must have ended or been cancelled. gRPC's callback threads end with
  // the last channel of a process, so that one must not be destroyed by such a thread.
  ~GrpcStreamTransport() override;

  std::shared_ptr<KvPush> Open(const std::string& address, const PushHello& hello,
                               std::shared_ptr<KvPushObserver> observer) override;

 private:
  const base::Clock* const clock_;
  const BlockAccess* const blocks_;
  TransportProbe* const probe_;
  const std::shared_ptr<LivePushCount> live_;  // shared with the pushes
  // Keeps one connection per decode worker, so that pushes do not wait for a handshake.
  std::unique_ptr<ChannelOpener> opener_;
};

// Makes KvTransferService, which receives pushes. With `tls` only peers whose certificate names
// "prefill" may push. `acceptor` answers Pair; without one it is UNIMPLEMENTED. Both outlive the
// service.
std::unique_ptr<grpc::Service> MakeKvTransferService(KvInboxes* inboxes, bool tls,
                                                     PairAcceptor* acceptor = nullptr);

}  // namespace baton
