#include "common/transport/pair/pair_reactor.h"

#include <memory>
#include <optional>
#include <utility>

#include "common/rpc/status_map.h"
#include "common/rpc/stream_writer.h"
#include "common/transport/pair/pair_wire.h"

namespace baton {
namespace {

// Far more than the answers to the announcements that a sender may have outstanding.
constexpr size_t kMaxPendingBytes = 1 << 20;

class PairReactor final : public PairServerReactor {
 public:
  PairReactor(PairAcceptor* acceptor, grpc::CallbackServerContext* context)
      : acceptor_(acceptor),
        writer_({.write = [this](const worker::v1::PairResponse* m) { StartWrite(m); },
                 .finish = [this](grpc::Status status) { Finish(std::move(status)); },
                 .cancel = [context] { context->TryCancel(); }},
                nullptr, kMaxPendingBytes) {}

  void Start(const absl::Status& allowed) {
    absl::Status status = allowed;
    if (status.ok() && acceptor_ == nullptr) {
      status = absl::UnimplementedError(
          "this decode worker receives KV by messages only; see its --kv-transport and its log");
    }
    if (!status.ok()) return writer_.Abort(ToGrpcStatus(status));
    StartRead(&request_);
  }

  void OnReadDone(bool ok) override {
    if (!ok) return Leave(absl::OkStatus());
    const absl::Status status = Handle();
    if (!status.ok()) return Leave(status);
    StartRead(&request_);
  }
  void OnWriteDone(bool ok) override { writer_.OnWriteDone(ok); }
  void OnCancel() override {
    writer_.OnCancel();
    writer_.Abort(grpc::Status(grpc::StatusCode::CANCELLED, "the sender ended the pair"));
  }
  void OnDone() override {
    // The acceptor may send until here.
    if (pair_) acceptor_->Closed(*pair_);
    delete this;
  }

 private:
  absl::Status Handle() {
    const std::optional<ToReceiver> message = PairMessageFromProto(request_);
    if (!message) return absl::InvalidArgumentError("a message of the pair says nothing");
    if (pair_) {
      acceptor_->OnMessage(*pair_, *message);
      return absl::OkStatus();
    }
    const auto* hello = std::get_if<PairHello>(&*message);
    if (hello == nullptr) return absl::InvalidArgumentError("a pair begins with hello");
    auto pair = acceptor_->OnHello(
        *hello, {.send = [this](const ToSender& m) { writer_.Send(PairMessageToProto(m)); },
                 .end = [this](absl::Status status) { writer_.Finish(ToGrpcStatus(status)); }});
    if (!pair.ok()) return pair.status();
    pair_ = *pair;
    return absl::OkStatus();
  }
  void Leave(const absl::Status& status) { writer_.Abort(ToGrpcStatus(status)); }

  PairAcceptor* const acceptor_;
  worker::v1::PairRequest request_;
  StreamWriter<worker::v1::PairResponse> writer_;
  std::optional<PairId> pair_;  // from the hello on; used by reads and OnDone
};

}  // namespace

PairServerReactor* StartPairReactor(PairAcceptor* acceptor, grpc::CallbackServerContext* context,
                                    const absl::Status& allowed) {
  auto* const reactor = new PairReactor(acceptor, context);
  reactor->Start(allowed);
  return reactor;
}

}  // namespace baton
