#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>

#include "absl/status/status.h"
#include "baton/v1/inference.pb.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/timer_queue.h"
#include "common/rpc/stream_writer.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"

namespace baton {

// Where the output of a request goes. Calls come from one thread at a time and in this order:
// Start, any number of Append and Predict, then one Finish or Fail. None of them waits for the
// client.
class ClientSink {
 public:
  virtual ~ClientSink() = default;
  // `gone` is called once when the client cancelled or was lost, perhaps before Attach returns.
  virtual void Attach(std::function<void()> gone) = 0;
  virtual void Start(v1::Started started) = 0;
  // False when more than the client buffer waits for the client; the delta is then lost.
  virtual bool Append(v1::Delta delta) = 0;
  // Of a client that reads slowly it may be lost.
  virtual void Predict(v1::EndPrediction prediction) = 0;
  virtual void Finish(v1::Final final) = 0;
  // Ends the request with an error; what waits for the client is dropped.
  virtual void Fail(const absl::Status& status) = 0;
  // The moment since which the client has taken nothing of what is ready for it.
  virtual std::optional<base::Instant> StalledSince() const = 0;
};

// Tells one owner that the client is gone, whichever of the two is known first. Thread-safe.
class GoneSignal final {
 public:
  void Attach(std::function<void()> gone);
  void Fire();

 private:
  base::Mutex mutex_;
  bool fired_ ABSL_GUARDED_BY(mutex_) = false;
  std::function<void()> gone_ ABSL_GUARDED_BY(mutex_);
};

struct StreamSinkOptions {
  size_t buffer_bytes = 0;
  base::Duration linger{};  // for the client to take what is left after the end
  const base::Clock* clock = nullptr;
  base::TimerQueue* timers = nullptr;
  // Hears how many predictions the client did not get, for it read too slowly. Must not call back.
  std::function<void(size_t count)> predictions_dropped;
};

// The sink of Generate and ChatGenerate, whose responses are the same on the wire. It lives until
// gRPC is done with it.
class StreamSink final : public ClientSink,
                         public grpc::ServerWriteReactor<grpc::ByteBuffer>,
                         public std::enable_shared_from_this<StreamSink> {
 public:
  static std::shared_ptr<StreamSink> Create(grpc::CallbackServerContext* context,
                                            StreamSinkOptions options);

  void Attach(std::function<void()> gone) override { gone_.Attach(std::move(gone)); }
  void Start(v1::Started started) override;
  bool Append(v1::Delta delta) override;
  void Predict(v1::EndPrediction prediction) override;
  void Finish(v1::Final final) override;
  void Fail(const absl::Status& status) override;
  std::optional<base::Instant> StalledSince() const override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override { self_.reset(); }

 private:
  StreamSink(grpc::CallbackServerContext* context, StreamSinkOptions options);
  void Write(const v1::GenerateResponse& message);
  void BreakAfterLinger();

  grpc::CallbackServerContext* const context_;
  const StreamSinkOptions options_;
  GoneSignal gone_;
  StreamWriter<v1::GenerateResponse> writer_;
  grpc::ByteBuffer buffer_;                // lives until its write is done
  std::atomic<int64_t> write_started_{0};  // steady nanoseconds; 0 = no write is out
  std::shared_ptr<StreamSink> self_;
};

// The sink of GenerateOnce, which answers with everything in one message.
class UnarySink final : public ClientSink, public grpc::ServerUnaryReactor {
 public:
  static std::shared_ptr<UnarySink> Create(grpc::ByteBuffer* response);

  void Attach(std::function<void()> gone) override { gone_.Attach(std::move(gone)); }
  void Start(v1::Started started) override { *message_.mutable_started() = std::move(started); }
  bool Append(v1::Delta delta) override;
  void Predict(v1::EndPrediction prediction) override;
  void Finish(v1::Final final) override;
  void Fail(const absl::Status& status) override;
  std::optional<base::Instant> StalledSince() const override { return std::nullopt; }

  void OnCancel() override { gone_.Fire(); }
  void OnDone() override { self_.reset(); }

 private:
  explicit UnarySink(grpc::ByteBuffer* response) : response_(response) {}

  grpc::ByteBuffer* const response_;
  v1::GenerateOnceResponse message_;
  GoneSignal gone_;
  std::shared_ptr<UnarySink> self_;
};

// Appends `next` to `last`; both are of consecutive tokens.
void MergeDelta(v1::Delta* last, v1::Delta* next);

}  // namespace baton
