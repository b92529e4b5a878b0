#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "baton/v1/inference.pb.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/rpc/stream_writer.h"
#include "grpcpp/server_context.h"
#include "grpcpp/support/byte_buffer.h"
#include "grpcpp/support/server_callback.h"
#include "router/edge/byte_budget.h"
#include "router/edge/gathered_bytes.h"
#include "router/edge/linger.h"

namespace baton {

// An answer that was held back until its request ended, in messages of a bounded size.
struct HeldAnswer {
  std::vector<v1::Delta> deltas;
  v1::Final final;
};

// What these hold in memory.
size_t BytesHeld(const std::vector<HeldAnswer>& answers);

// Where the output of one answer goes. Calls come from one thread at a time and in this order:
// Start, any number of Show, any number of Append and Predict, then one Finish, FinishHeld or
// Fail. None of them waits for the client.
class AnswerSink {
 public:
  virtual ~AnswerSink() = default;
  // `gone` is called once when the client cancelled or was lost, perhaps before Attach returns.
  virtual void Attach(std::function<void()> gone) = 0;
  virtual void Start(v1::Started started) = 0;
  // A piece of the prompt. Refused as by Append.
  virtual absl::Status Show(v1::Prompt prompt) = 0;
  // Refused, and the delta is lost: SLOW_CLIENT when more than the client buffer waits for the
  // client, and of what is gathered for it as GatheredBytes has it.
  virtual absl::Status Append(v1::Delta delta) = 0;
  // Where there is no room for it, or the client reads slowly, it may be lost.
  virtual void Predict(v1::EndPrediction prediction) = 0;
  virtual void Finish(v1::Final final) = 0;
  // In place of all after Start: all answers at once, in their order and at least one. However
  // large they are, the client gets them: the room that they take, they have had before. `share` is
  // what they hold of the byte budget, and lasts until the client has them or is gone, or something
  // else counts in place of them.
  virtual void FinishHeld(std::vector<HeldAnswer> answers, ByteBudget::Share share) = 0;
  // Ends the request with an error; what waits for the client is dropped.
  virtual void Fail(const absl::Status& status) = 0;
  // The moment since which the client has taken nothing of what is ready for it.
  virtual std::optional<base::Instant> StalledSince() const = 0;
};

// Where the output of a request goes. As an AnswerSink it takes one answer; of several, the
// messages have their index, EndAnswer takes each Final but the last, and Finish that one.
class ClientSink : public AnswerSink {
 public:
  // One of several answers ended, and others go on. Refused as by Append.
  virtual absl::Status EndAnswer(v1::Final final) = 0;
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
  LingerOptions linger;  // for the client to take what is left after the end
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
  absl::Status Show(v1::Prompt prompt) override;
  absl::Status Append(v1::Delta delta) override;
  void Predict(v1::EndPrediction prediction) override;
  absl::Status EndAnswer(v1::Final final) override;
  void Finish(v1::Final final) override;
  void FinishHeld(std::vector<HeldAnswer> answers, ByteBudget::Share share) override;
  void Fail(const absl::Status& status) override;
  std::optional<base::Instant> StalledSince() const override;

  void OnWriteDone(bool ok) override;
  void OnCancel() override;
  void OnDone() override;

 private:
  StreamSink(grpc::CallbackServerContext* context, StreamSinkOptions options);
  absl::Status Send(v1::GenerateResponse message);
  void Write(const v1::GenerateResponse& message);

  const StreamSinkOptions options_;
  GoneSignal gone_;
  Linger linger_;
  ByteBudget::Share held_;  // of answers that came at their end
  StreamWriter<v1::GenerateResponse> writer_;
  grpc::ByteBuffer buffer_;                // lives until its write is done
  std::atomic<int64_t> write_started_{0};  // steady nanoseconds; 0 = no write is out
  std::shared_ptr<StreamSink> self_;
};

// Collects the answers of a request in one message.
class AnswerCollector final {
 public:
  void Start(v1::Started started) { *message_.mutable_started() = std::move(started); }
  void Show(v1::Prompt prompt);
  void Append(v1::Delta delta);
  void Predict(v1::EndPrediction prediction);
  void End(v1::Final final);
  void AddHeld(std::vector<HeldAnswer> answers);
  const v1::GenerateOnceResponse& message() const { return message_; }

 private:
  // The place of the answer of that index above 0.
  v1::FurtherAnswer* Further(int32_t index);

  v1::GenerateOnceResponse message_;
};

// The sink of GenerateOnce, which answers with everything in one message.
class UnarySink final : public ClientSink, public grpc::ServerUnaryReactor {
 public:
  // The answer counts in `budget` as `client`'s while it grows and until the client has it.
  static std::shared_ptr<UnarySink> Create(grpc::CallbackServerContext* context,
                                           grpc::ByteBuffer* response, const LingerOptions& linger,
                                           ByteBudget* budget, std::string client);

  void Attach(std::function<void()> gone) override { gone_.Attach(std::move(gone)); }
  void Start(v1::Started started) override { answers_.Start(std::move(started)); }
  absl::Status Show(v1::Prompt prompt) override;
  absl::Status Append(v1::Delta delta) override;
  void Predict(v1::EndPrediction prediction) override;
  absl::Status EndAnswer(v1::Final final) override;
  void Finish(v1::Final final) override;
  void FinishHeld(std::vector<HeldAnswer> answers, ByteBudget::Share share) override;
  void Fail(const absl::Status& status) override;
  std::optional<base::Instant> StalledSince() const override { return std::nullopt; }

  void OnCancel() override { gone_.Fire(); }
  void OnDone() override;

 private:
  UnarySink(grpc::CallbackServerContext* context, grpc::ByteBuffer* response,
            const LingerOptions& linger, ByteBudget* budget, std::string client)
      : response_(response),
        linger_(context, linger),
        budget_(budget),
        client_(std::move(client)),
        gathered_(budget, client_) {}
  void Answer();
  void DropGathered();

  grpc::ByteBuffer* const response_;
  Linger linger_;
  ByteBudget* const budget_;
  const std::string client_;  // as Caller has it
  ByteBudget::Share held_;    // of the answer once it is whole
  AnswerCollector answers_;
  GatheredBytes gathered_;  // of answers_
  GoneSignal gone_;
  std::shared_ptr<UnarySink> self_;
};

// What a client that reads too slowly is told, of which more than `buffer_bytes` would wait.
absl::Status SlowClient(size_t buffer_bytes);

// Appends `next` to `last`; both are of consecutive tokens.
void MergePrompt(v1::Prompt* last, v1::Prompt* next);
// Likewise, of one answer.
void MergeDelta(v1::Delta* last, v1::Delta* next);

}  // namespace baton
