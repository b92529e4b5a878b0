#include <utility>

#include "baton/worker/v1/kv_transfer.grpc.pb.h"
#include "common/base/status.h"
#include "common/rpc/credentials.h"
#include "common/rpc/generation.h"
#include "common/rpc/status_map.h"
#include "common/rpc/trace_metadata.h"
#include "common/transport/grpc_stream.h"
#include "common/transport/pair/pair_acceptor.h"
#include "common/transport/pair/pair_reactor.h"
#include "common/transport/push_wire.h"

namespace baton {
namespace {

grpc::ByteBuffer ResponseOf(int32_t blocks) {
  worker_pb::PushResponse response;
  response.set_block_count(blocks);
  const grpc::Slice slice(response.SerializeAsString());
  return grpc::ByteBuffer(&slice, 1);
}

// One Push call. Keeps itself alive until OnDone.
class PushReactor final : public grpc::ServerReadReactor<grpc::ByteBuffer>, public KvPushReply {
 public:
  PushReactor(KvInboxes* inboxes, PairAcceptor* acceptor, grpc::ByteBuffer* response,
              const std::optional<TraceContext>& trace)
      : inboxes_(inboxes),
        acceptor_(acceptor),
        response_(response),
        traceparent_(trace ? FormatTraceparent(*trace) : "") {}

  void Start(std::shared_ptr<PushReactor> self, const absl::Status& allowed) {
    self_ = std::move(self);
    if (!allowed.ok()) return Answer(allowed);
    StartRead(&message_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) {
      // After a commit the answer comes from the inbox.
      if (!committed_) Answer(absl::DataLossError("the push ended without a commit"));
      return;
    }
    absl::Status status = Handle();
    message_.Clear();
    if (!status.ok()) return Answer(std::move(status));
    if (!committed_) StartRead(&message_);
  }
  void OnCancel() override { Answer(absl::CancelledError("the push was cancelled")); }
  void OnDone() override {
    if (inbox_ != nullptr && acceptor_ != nullptr) acceptor_->pushes().Remove(ticket_);
    if (inbox_ != nullptr) inbox_->Closed();
    self_.reset();
  }

  void Answer(absl::StatusOr<int32_t> blocks) override {
    {
      base::MutexLock lock(&mutex_);
      if (answered_) return;
      answered_ = true;
      if (blocks.ok()) *response_ = ResponseOf(*blocks);
    }
    Finish(ToGrpcStatus(blocks.status()));
  }

 private:
  absl::Status Handle() {
    if (inbox_ != nullptr) {
      if (const std::optional<KvPiece> piece = DecodePiece(&message_)) return inbox_->Write(*piece);
    }
    worker_pb::PushRequest request;
    if (!ParseMessage(&message_, &request)) {
      return absl::InvalidArgumentError("a message of the push is no PushRequest");
    }
    return inbox_ == nullptr ? Open(request) : Handle(request);
  }

  absl::Status Handle(const worker_pb::PushRequest& request) {
    switch (request.message_case()) {
      case worker_pb::PushRequest::kPiece: {
        const worker_pb::PushPiece& piece = request.piece();
        return inbox_->Write({.ordinal = piece.ordinal(),
                              .offset = piece.offset(),
                              .parts = {std::as_bytes(std::span(piece.data()))},
                              .crc32c = piece.crc32c()});
      }
      case worker_pb::PushRequest::kProgress:
        inbox_->Progress(request.progress().computed_tokens());
        return absl::OkStatus();
      case worker_pb::PushRequest::kCommit:
        committed_ = true;
        inbox_->Commit(CommitmentFromProto(request.commit()));
        return absl::OkStatus();
      default:
        return absl::InvalidArgumentError("a push carries one open, then pieces, progress, commit");
    }
  }

  absl::Status Open(const worker_pb::PushRequest& request) {
    if (!request.has_open()) {
      return absl::InvalidArgumentError("a push must begin with open");
    }
    std::optional<PushHello> hello = HelloFromProto(request.open());
    if (!hello) return UnknownTicket();
    hello->traceparent = traceparent_;
    auto inbox = inboxes_->Open(*hello, self_);
    if (!inbox.ok()) return inbox.status();
    inbox_ = *std::move(inbox);
    ticket_ = hello->ticket;
    if (acceptor_ != nullptr) acceptor_->pushes().Add(ticket_, inbox_);
    return absl::OkStatus();
  }

  KvInboxes* const inboxes_;
  PairAcceptor* const acceptor_;  // null without pairs
  grpc::ByteBuffer* const response_;
  const std::string traceparent_;
  std::shared_ptr<PushReactor> self_;  // until OnDone
  grpc::ByteBuffer message_;           // owned by the outstanding read
  std::shared_ptr<KvInbox> inbox_;     // shared with the reservation's owner
  Ticket ticket_;                      // of `inbox_`
  bool committed_ = false;
  base::Mutex mutex_;
  bool answered_ ABSL_GUARDED_BY(mutex_) = false;
};

// Push takes its messages raw: see push_wire.h.
class KvTransferServiceImpl final : public worker_pb::KvTransferService::WithRawCallbackMethod_Push<
                                        worker_pb::KvTransferService::WithCallbackMethod_Pair<
                                            worker_pb::KvTransferService::Service>> {
 public:
  KvTransferServiceImpl(KvInboxes* inboxes, bool tls, PairAcceptor* acceptor)
      : inboxes_(inboxes), tls_(tls), acceptor_(acceptor) {}

  grpc::ServerReadReactor<grpc::ByteBuffer>* Push(grpc::CallbackServerContext* context,
                                                  grpc::ByteBuffer* response) override {
    auto reactor =
        std::make_shared<PushReactor>(inboxes_, acceptor_, response, TraceContextOf(*context));
    PushReactor* const raw = reactor.get();
    raw->Start(std::move(reactor), CheckPeerRole(context->auth_context().get(), tls_, "prefill"));
    return raw;
  }

  PairServerReactor* Pair(grpc::CallbackServerContext* context) override {
    return StartPairReactor(acceptor_, context,
                            CheckPeerRole(context->auth_context().get(), tls_, "prefill"));
  }

 private:
  KvInboxes* const inboxes_;
  const bool tls_;
  PairAcceptor* const acceptor_;
};

}  // namespace

std::unique_ptr<grpc::Service> MakeKvTransferService(KvInboxes* inboxes, bool tls,
                                                     PairAcceptor* acceptor) {
  return std::make_unique<KvTransferServiceImpl>(inboxes, tls, acceptor);
}

}  // namespace baton
