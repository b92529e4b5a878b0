#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "baton/worker/v1/decode.grpc.pb.h"
#include "baton/worker/v1/prefill.grpc.pb.h"
#include "common/base/mutex.h"
#include "common/rpc/status_map.h"
#include "common/rpc/trace_metadata.h"
#include "common/sample/params.h"
#include "grpcpp/client_context.h"

namespace baton {

enum class CallKind { kDecode, kPrefill };

// The last thing that a call says: its stream is over.
struct CallEnded {
  absl::Status status;
};

// What one stream to a worker says. `call` tells streams of different attempts apart.
struct CallEvent {
  uint64_t call = 0;
  CallKind kind = CallKind::kDecode;
  std::variant<worker::v1::DecodeResponse, worker::v1::PrefillResponse, CallEnded> what;
};

// Takes what a call says. It is called from gRPC's threads, never while the call's lock is held,
// and must not block.
using CallSink = std::function<void(CallEvent)>;

struct CallOptions {
  uint64_t call = 0;
  std::chrono::system_clock::time_point deadline;
  CallSink sink;
  std::optional<TraceContext> trace = {};  // what the worker's spans belong to
};

// The reading half of a client stream. One message is outstanding at a time: the next is read after
// ReadNext, so nothing piles up between gRPC and the owner. Lives until gRPC is done with it,
// whatever its owner does. Thread-safe.
template <typename Reactor, typename Response>
class ReadingCall : public Reactor {
 public:
  // Asks for the next message. To be called once for each message received.
  void ReadNext() {
    base::MutexLock lock(&mutex_);
    StartReadLocked();
  }

  // Ends the call without another event. Its status no longer matters.
  void Cancel() {
    Silence();
    context_.TryCancel();
  }

  // Ends the events, because the worker is about to end the call by itself.
  void Forget() { Silence(); }

  void OnReadDone(bool ok) override {
    std::optional<Response> message;
    {
      base::MutexLock lock(&mutex_);
      reading_ = false;
      if (!ok) {
        ended_ = true;
      } else if (silent_) {
        StartReadLocked();
      } else {
        // Without the lock another thread may read the next one there: by Forget or Cancel.
        message = std::move(response_);
      }
    }
    if (!ok) {
      this->RemoveHold();
    } else if (message) {
      sink_({call_, kind_, *std::move(message)});
    }
  }

  void OnDone(const grpc::Status& status) override {
    const auto keep = std::move(self_);
    bool silent = false;
    {
      base::MutexLock lock(&mutex_);
      silent = silent_;
    }
    if (!silent) sink_({call_, kind_, CallEnded{FromGrpcStatus(status)}});
    sink_ = nullptr;
  }

 protected:
  ReadingCall(CallKind kind, CallOptions options)
      : call_(options.call), kind_(kind), sink_(std::move(options.sink)) {
    context_.set_deadline(options.deadline);
    if (options.trace) AddTraceContext(*options.trace, &context_);
  }

  // No more events from here on. A stream that nobody reads never ends, so it reads on by itself.
  void Silence() {
    base::MutexLock lock(&mutex_);
    silent_ = true;
    StartReadLocked();
  }

  void Begin(std::shared_ptr<ReadingCall> self) {
    self_ = std::move(self);
    this->AddHold();  // reads start outside of reactions
    ReadNext();
    this->StartCall();
  }

  void StartReadLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    if (reading_ || ended_) return;
    reading_ = true;
    this->StartRead(&response_);
  }

  base::Mutex mutex_;
  bool ended_ ABSL_GUARDED_BY(mutex_) = false;  // nothing more may be started
  grpc::ClientContext context_;

 private:
  const uint64_t call_;
  const CallKind kind_;
  CallSink sink_;
  Response response_;
  bool reading_ ABSL_GUARDED_BY(mutex_) = false;
  bool silent_ ABSL_GUARDED_BY(mutex_) = false;
  std::shared_ptr<ReadingCall> self_;
};

using DecodeReactor =
    grpc::ClientBidiReactor<worker::v1::DecodeRequest, worker::v1::DecodeResponse>;

class DecodeCall final : public ReadingCall<DecodeReactor, worker::v1::DecodeResponse> {
 public:
  static std::shared_ptr<DecodeCall> Open(worker::v1::DecodeService::Stub* stub,
                                          worker::v1::DecodeStart start, CallOptions options);

  // Tells the worker that the request is over and why; no more events. The worker ends the stream.
  void Release(FinishReason reason);

  void OnWriteDone(bool ok) override;

 private:
  explicit DecodeCall(CallOptions options) : ReadingCall(CallKind::kDecode, std::move(options)) {}
  void WriteLocked() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  worker::v1::DecodeRequest request_;  // lives until its write is done
  worker::v1::DecodeRequest release_;
  bool writing_ ABSL_GUARDED_BY(mutex_) = false;
  enum class Releasing { kNo, kAsked, kSent };
  Releasing releasing_ ABSL_GUARDED_BY(mutex_) = Releasing::kNo;
};

using PrefillReactor = grpc::ClientReadReactor<worker::v1::PrefillResponse>;

class PrefillCall final : public ReadingCall<PrefillReactor, worker::v1::PrefillResponse> {
 public:
  static std::shared_ptr<PrefillCall> Open(worker::v1::PrefillService::Stub* stub,
                                           worker::v1::PrefillRequest request, CallOptions options);

  void OnReadInitialMetadataDone(bool ok) override;

 private:
  explicit PrefillCall(CallOptions options) : ReadingCall(CallKind::kPrefill, std::move(options)) {}

  worker::v1::PrefillRequest request_;  // lives until the worker has it
};

}  // namespace baton
