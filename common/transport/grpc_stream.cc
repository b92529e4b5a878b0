#include "common/transport/grpc_stream.h"

#include <utility>

#include "baton/worker/v1/kv_transfer.pb.h"
#include "common/base/status.h"
#include "common/rpc/generation.h"
#include "common/rpc/keepalive.h"
#include "common/rpc/status_map.h"
#include "common/trace/trace_context.h"
#include "common/transport/outbox.h"
#include "common/transport/push_wire.h"
#include "grpcpp/alarm.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/impl/codegen/proto_utils.h"

namespace baton {

// Counts the pushes that still hold a channel.
class LivePushCount final {
 public:
  void Add() {
    base::MutexLock lock(&mutex_);
    ++count_;
  }
  void Remove() {
    base::MutexLock lock(&mutex_);
    --count_;
    changed_.NotifyAll();
  }
  void WaitForNone(base::Instant deadline) {
    base::MutexLock lock(&mutex_);
    while (count_ > 0 && changed_.WaitUntil(&mutex_, deadline)) {
    }
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  int count_ ABSL_GUARDED_BY(mutex_) = 0;
};

namespace {

// A cancelled push ends within moments, or when keepalive has given up its connection.
constexpr auto kLastPush =
    std::chrono::milliseconds(kKeepaliveTimeMs + kKeepaliveTimeoutMs + 5'000);
constexpr auto kReadsPoll = std::chrono::milliseconds(5);

constexpr char kPushMethod[] = "/baton.worker.v1.KvTransferService/Push";
// Idle connections to workers that left are dropped beyond this.
constexpr size_t kMaxChannels = 256;

worker_pb::PushRequest HelloToProto(const PushHello& hello) {
  worker_pb::PushRequest request;
  worker_pb::PushOpen* open = request.mutable_open();
  TicketToProto(hello.ticket, open->mutable_ticket());
  KvShapeToProto(hello.shape, open->mutable_layout());
  open->set_model_fingerprint(hello.model_fingerprint);
  open->set_numerics(hello.numerics);
  return request;
}

grpc::ByteBuffer MessageOf(const OutboxItem& item, SourceReads* reads) {
  if (const auto* piece = std::get_if<KvPiece>(&item)) return EncodePiece(*piece, reads);
  worker_pb::PushRequest request;
  if (const auto* note = std::get_if<PushProgressNote>(&item)) {
    request.mutable_progress()->set_computed_tokens(note->computed_tokens);
  } else {
    const auto& commit = std::get<PushCommitment>(item);
    worker_pb::PushCommit* proto = request.mutable_commit();
    proto->set_block_count(commit.block_count);
    proto->set_byte_count(commit.byte_count);
    proto->set_probe_digest(commit.probe_digest);
    TokenToProto({commit.first_index, commit.first_token, commit.unix_time},
                 {.eos_signal = true, .probe = true}, proto->mutable_first_token());
  }
  return EncodeMessage(request);
}

// Push is called as a stream in both directions, so that a refusal shows at once as the end of the
// read and not only when the next write fails; on the wire it is the same.
//
// Keeps itself alive until its observer was told. Operations start outside of reactions, hence the
// hold; it is given up when the peer has ended the call and no source byte is being read.
class GrpcPush final : public KvPush,
                       public grpc::ClientBidiReactor<grpc::ByteBuffer, worker_pb::PushResponse> {
 public:
  GrpcPush(std::shared_ptr<KvPushObserver> observer, const base::Clock* clock,
           const BlockAccess* blocks, std::shared_ptr<LivePushCount> live)
      : observer_(std::move(observer)),
        clock_(clock),
        live_(std::move(live)),
        blocks_(blocks),
        context_(std::make_unique<grpc::ClientContext>()),
        waiting_since_(clock->Now()) {
    live_->Add();
  }

  // Called once, when there is a channel. A Cancel that came before it cancels the call.
  void Start(const std::shared_ptr<grpc::Channel>& channel, const PushHello& hello,
             std::shared_ptr<GrpcPush> self) {
    self_ = std::move(self);
    stub_ = std::make_unique<Stub>(channel);
    if (!hello.traceparent.empty()) {
      context_->AddMetadata(std::string(kTraceparentHeader), hello.traceparent);
    }
    stub_->PrepareBidiStreamingCall(context_.get(), kPushMethod, {}, this);
    AddHold();
    message_ = EncodeMessage(HelloToProto(hello));
    StartRead(&response_);
    StartWrite(&message_);
    StartCall();
  }
  // In place of Start, when there is none.
  void FailToStart(absl::Status why) {
    {
      base::MutexLock lock(&mutex_);
      closed_ = true;
      outbox_.Clear();
    }
    observer_->OnPushDone(std::move(why));
    live_->Remove();
  }

  void Send(std::vector<KvSource> blocks) override {
    {
      base::MutexLock lock(&mutex_);
      if (!closed_) outbox_.Add(blocks);
    }
    Pump();
  }
  void Progress(int32_t computed_tokens) override {
    {
      base::MutexLock lock(&mutex_);
      if (!closed_) outbox_.Note(computed_tokens);
    }
    Pump();
  }
  void Commit(PushCommitment commitment) override {
    {
      base::MutexLock lock(&mutex_);
      if (!closed_) outbox_.Commit(std::move(commitment));
    }
    Pump();
  }
  void Cancel() override {
    base::MutexLock lock(&mutex_);
    if (context_ != nullptr) context_->TryCancel();
  }
  base::Instant waiting_since() const override {
    base::MutexLock lock(&mutex_);
    return waiting_since_;
  }

  void OnWriteDone(bool ok) override {
    {
      base::MutexLock lock(&mutex_);
      writing_ = false;
      message_.Clear();
      if (!committed_) waiting_since_ = base::kNever;
    }
    if (ok) Pump();
  }

  void OnReadDone(bool ok) override {
    answered_ = ok;
    bool release = false;
    {
      base::MutexLock lock(&mutex_);
      closed_ = true;
      outbox_.Clear();
      release = !building_;
    }
    if (release) RemoveHold();
  }

  void OnDone(const grpc::Status& status) override {
    absl::Status result = FromGrpcStatus(status);
    if (result.ok() && !answered_) {
      result = absl::InternalError("the decode worker ended the push without an answer");
    }
    std::unique_ptr<grpc::ClientContext> context;
    {
      base::MutexLock lock(&mutex_);
      context = std::move(context_);
      if (!failure_.ok()) result = failure_;
    }
    // Both hold the channel; the transport waits for this before it lets go of its own reference.
    context.reset();
    stub_.reset();
    result_ = std::move(result);
    TellWhenUnread();
  }

 private:
  // Builds and starts the next write. The source is read outside of the lock: `writing_` keeps
  // other builders away, `building_` the end of the call.
  void Pump() {
    std::optional<UnreadItem> next;
    {
      base::MutexLock lock(&mutex_);
      if (writing_ || closed_) return;
      next = outbox_.Next();
      if (!next) return;
      writing_ = true;
      building_ = true;
    }
    const absl::StatusOr<OutboxItem> item = ReadItem(*std::move(next), *blocks_);
    if (item.ok()) message_ = MessageOf(*item, &reads_);
    bool release = false;
    {
      base::MutexLock lock(&mutex_);
      building_ = false;
      release = closed_;
      if (closed_) {
        message_.Clear();
      } else if (item.ok()) {
        Write(std::holds_alternative<PushCommitment>(*item));
      } else {
        Fail(item.status());
      }
    }
    if (release) RemoveHold();
  }

  void Write(bool commit) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    waiting_since_ = clock_->Now();
    committed_ = commit;
    grpc::WriteOptions options;
    if (commit) options.set_last_message();
    StartWrite(&message_, options);
  }

  // A source cannot be read: the call ends, and with it the push. `writing_` stays, so that nothing
  // is sent behind the gap.
  void Fail(absl::Status status) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    failure_ = std::move(status);
    outbox_.Clear();
    if (context_ != nullptr) context_->TryCancel();
  }

  // Called after OnDone. gRPC may still hold what a call that was cut off has left in its output.
  // The last slice cannot tell by itself when it goes, because gRPC drops it under locks of its
  // own.
  void TellWhenUnread() {
    if (!reads_.none()) {
      alarm_ = std::make_unique<grpc::Alarm>();
      alarm_->Set(std::chrono::system_clock::now() + kReadsPoll,
                  [this](bool) { TellWhenUnread(); });
      return;
    }
    const std::shared_ptr<LivePushCount> live = live_;
    observer_->OnPushDone(std::move(result_));
    self_.reset();
    live->Remove();
  }

  using Stub = grpc::TemplatedGenericStub<grpc::ByteBuffer, worker_pb::PushResponse>;

  const std::shared_ptr<KvPushObserver> observer_;  // shared with its owner until told
  const base::Clock* const clock_;
  const std::shared_ptr<LivePushCount> live_;  // shared with the transport
  const BlockAccess* const blocks_;
  std::unique_ptr<Stub> stub_;      // from Start until OnDone
  std::shared_ptr<GrpcPush> self_;  // until the observer was told
  SourceReads reads_;
  std::unique_ptr<grpc::Alarm> alarm_;  // polls for TellWhenUnread
  grpc::ByteBuffer message_;            // owned by the outstanding write
  worker_pb::PushResponse response_;
  absl::Status result_;    // from OnDone on
  bool answered_ = false;  // written by OnReadDone, read by OnDone after it

  mutable base::Mutex mutex_;
  std::unique_ptr<grpc::ClientContext> context_;  // until OnDone
  Outbox outbox_ ABSL_GUARDED_BY(mutex_);
  bool writing_ ABSL_GUARDED_BY(mutex_) = true;  // the hello goes first, whenever it starts
  bool building_ ABSL_GUARDED_BY(mutex_) = false;
  bool closed_ ABSL_GUARDED_BY(mutex_) = false;
  bool committed_ ABSL_GUARDED_BY(mutex_) = false;
  absl::Status failure_ ABSL_GUARDED_BY(mutex_);  // why a source could not be read
  base::Instant waiting_since_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace

GrpcStreamTransport::GrpcStreamTransport(ChannelOptions options, const base::Clock* clock,
                                         const BlockAccess* blocks, TransportProbe* probe)
    : clock_(clock),
      blocks_(blocks),
      probe_(probe),
      live_(std::make_shared<LivePushCount>()),
      opener_(std::make_unique<ChannelOpener>(std::move(options), kMaxChannels)) {}

GrpcStreamTransport::~GrpcStreamTransport() {
  opener_.reset();
  live_->WaitForNone(std::chrono::steady_clock::now() + kLastPush);
}

std::shared_ptr<KvPush> GrpcStreamTransport::Open(const std::string& address,
                                                  const PushHello& hello,
                                                  std::shared_ptr<KvPushObserver> observer) {
  if (probe_ != nullptr) probe_->PushOpened(PushWay::kGrpc);
  auto push = std::make_shared<GrpcPush>(std::move(observer), clock_, blocks_, live_);
  opener_->Open(address, [push, hello](absl::StatusOr<std::shared_ptr<grpc::Channel>> channel) {
    if (!channel.ok()) return push->FailToStart(channel.status());
    push->Start(*channel, hello, push);
  });
  return push;
}

}  // namespace baton
