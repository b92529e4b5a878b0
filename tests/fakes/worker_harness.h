#pragma once

#include <grpcpp/grpcpp.h>

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "baton/worker/v1/decode.grpc.pb.h"
#include "baton/worker/v1/kv_transfer.grpc.pb.h"
#include "baton/worker/v1/prefill.grpc.pb.h"
#include "baton/worker/v1/status.grpc.pb.h"
#include "common/base/clock.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "common/rpc/generation.h"
#include "common/rpc/server.h"
#include "common/transport/grpc_stream.h"
#include "common/worker/worker_core.h"
#include "decode_worker/decode_service.h"
#include "decode_worker/kv_receiver.h"
#include "prefill_worker/prefill_service.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/fake_runner.h"

namespace baton {

// A whole worker over the fake model, served on a free loopback port: real engine, services and
// gRPC; no weights. The test drives it as a router would.
class WorkerHarness final {
 public:
  struct Options {
    WorkerRole role = WorkerRole::kDecode;
    bool elastic = false;  // it has both roles
    RoleRuleOptions roles;
    EngineOptions engine = DefaultEngine();
    FakeModelOptions model;
    WorkerTimeouts timeouts;
    int32_t num_blocks = 64;
    int block_size = 4;
    std::string fingerprint = "fp-a";
    std::string numerics = "fake/1";
    uint64_t probe_digest = 0;
    TlsOptions tls;
    std::optional<TlsOptions> push_tls;  // of its pushes, where not `tls`
    bool guides = true;                  // over bytes, the first ids of the fake model
    bool narrow_client = false;          // its channel takes 64 KiB at most before somebody reads
    const BlockAccess* blocks = &HostBlocks();
  };
  static EngineOptions DefaultEngine();

  explicit WorkerHarness(Options options);
  ~WorkerHarness();

  std::string address() const { return server_->address(); }
  WorkerCore& core() { return *core_; }
  KvReceiver& receiver() { return *receiver_; }
  RpcServer& server() { return *server_; }
  // The memory of its blocks.
  std::span<std::byte> arena() {
    const kernels::PagedKv& kv = arena_.kv();
    return {kv.block(0), kv.layout.block_bytes() * static_cast<size_t>(kv.num_blocks)};
  }
  FakeRunnerControl& control() { return *control_; }
  EngineFigures figures() { return engine_->figures(); }
  // Sequences that the engine has taken in since the start, whatever became of them.
  int admitted() const { return probe_.admitted; }
  // Pushes that were counted as coming from other numerics.
  int other_numerics() const { return probe_.other_numerics; }
  // Answers whose EOS was counted here.
  int eos_stops() const { return probe_.eos_stops; }
  // The reasons for which pushes failed here as a sender, and were refused as a receiver.
  std::vector<Reason> failed_pushes() {
    base::MutexLock lock(&probe_.mutex);
    return probe_.failed_pushes;
  }
  std::vector<Reason> refused_pushes() {
    base::MutexLock lock(&probe_.mutex);
    return probe_.refused_pushes;
  }
  KvShape shape() const { return core_->identity().shape; }
  const absl::Status& fault() const { return fault_; }
  std::shared_ptr<grpc::Channel> channel() const { return channel_; }

  // Eventually every block is free or cached, no stream is left, no ticket is valid.
  bool Idle();

 private:
  struct CountingProbe final : WorkerProbe {
    void SequenceAdmitted() override { ++admitted; }
    void PushFromOtherNumerics() override { ++other_numerics; }
    void StoppedByEos(const EosSignal&) override { ++eos_stops; }
    void PushFailed(Reason reason) override {
      base::MutexLock lock(&mutex);
      failed_pushes.push_back(reason);
    }
    void PushRefused(Reason reason) override {
      base::MutexLock lock(&mutex);
      refused_pushes.push_back(reason);
    }
    std::atomic<int> admitted{0};
    std::atomic<int> other_numerics{0};
    std::atomic<int> eos_stops{0};
    base::Mutex mutex;
    std::vector<Reason> failed_pushes ABSL_GUARDED_BY(mutex);
    std::vector<Reason> refused_pushes ABSL_GUARDED_BY(mutex);
  };

  const Options options_;
  base::SteadyClock clock_;
  CountingProbe probe_;
  FakeArena arena_;
  std::shared_ptr<FakeRunnerControl> control_;  // the runner holds the other end
  absl::Status fault_;
  std::unique_ptr<GuideCompiler> guides_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<WorkerCore> core_;
  std::unique_ptr<KvReceiver> receiver_;
  std::unique_ptr<GrpcStreamTransport> transport_;
  std::vector<std::unique_ptr<grpc::Service>> services_;
  std::unique_ptr<RpcServer> server_;
  std::shared_ptr<grpc::Channel> channel_;
};

// A request of `prompt_tokens` ids, greedy, with the harness's fingerprint.
worker_pb::Generation MakeGeneration(int32_t prompt_tokens, int32_t max_tokens, int32_t salt = 0);
// The messages that open a stream at a decode worker: to wait for a push, or to prefill there.
worker_pb::DecodeStart SplitStart(const worker_pb::Generation& generation);
worker_pb::DecodeStart LocalStart(const worker_pb::Generation& generation = MakeGeneration(10, 6));

// The router's side of one Decode stream. Calls block, at most until the stream's deadline.
class DecodeCall final {
 public:
  DecodeCall(WorkerHarness& worker, const worker_pb::DecodeStart& start,
             std::chrono::milliseconds deadline = std::chrono::seconds(20));

  // The next message; false when the stream is over.
  bool Read(worker_pb::DecodeResponse* response) { return stream_->Read(response); }
  // Reads to the end.
  void ReadAll();
  void Release(worker_pb::FinishCause cause);
  void Cancel() { context_.TryCancel(); }
  absl::Status Finish();

  // What ReadAll saw.
  std::vector<TokenId> tokens;  // of Started and Tokens; indices are checked
  std::optional<worker_pb::DecodeStarted> started;
  std::optional<worker_pb::DecodeFinal> final;

 private:
  int32_t next_index_ = 0;
  std::unique_ptr<worker_pb::DecodeService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<worker_pb::DecodeRequest, worker_pb::DecodeResponse>>
      stream_;
};

// The router's side of one Prefill stream.
class PrefillCall final {
 public:
  PrefillCall(WorkerHarness& worker, const worker_pb::PrefillRequest& request,
              std::chrono::milliseconds deadline = std::chrono::seconds(20));
  bool Read(worker_pb::PrefillResponse* response) { return stream_->Read(response); }
  void ReadAll();
  void Cancel() { context_.TryCancel(); }
  absl::Status Finish();

  std::optional<worker_pb::FirstToken> first;
  std::optional<worker_pb::PrefillFinal> final;

 private:
  std::unique_ptr<worker_pb::PrefillService::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReader<worker_pb::PrefillResponse>> stream_;
};

// The sender's side of one Push, piece by piece, for tests of what a receiver refuses.
class PushCall final {
 public:
  explicit PushCall(WorkerHarness& worker,
                    std::chrono::milliseconds deadline = std::chrono::seconds(20));
  bool Open(const worker_pb::Ticket& ticket, const KvShape& shape, const std::string& fingerprint,
            const std::string& numerics = "");
  bool Piece(int32_t ordinal, int64_t offset, const std::string& data);
  bool BadPiece(int32_t ordinal, int64_t offset, const std::string& data);  // wrong checksum
  bool Progress();
  bool Commit(int32_t blocks, int64_t bytes, int32_t index, int32_t token);
  void Cancel() { context_.TryCancel(); }
  // Closes the sender's side and waits for the answer.
  absl::Status Finish();

 private:
  bool Close();
  bool Write(const worker_pb::PushRequest& request) { return writer_->Write(request); }

  std::unique_ptr<worker_pb::KvTransferService::Stub> stub_;
  grpc::ClientContext context_;
  worker_pb::PushResponse response_;
  bool closed_ = false;
  std::unique_ptr<grpc::ClientWriter<worker_pb::PushRequest>> writer_;
};

// A split attempt as a router runs it: Decode, Reserved, Prefill, then both to their ends.
struct SplitResult {
  absl::Status prefill, decode;
  std::vector<TokenId> tokens;
  worker_pb::PrefillFinal prefill_final;
  std::optional<worker_pb::DecodeStarted> started;
  std::optional<worker_pb::DecodeFinal> decode_final;
};
SplitResult RunSplit(WorkerHarness& prefill, WorkerHarness& decode,
                     const worker_pb::Generation& generation);
// A stream at a decode worker that has its reservation, which a push may now fill.
struct ReservedCall {
  ReservedCall(WorkerHarness& decode, const worker_pb::Generation& generation);
  DecodeCall call;
  worker_pb::Reserved reserved;
};

worker_pb::PrefillRequest PrefillRequestFor(const worker_pb::Generation& generation,
                                            const worker_pb::Reserved& reserved,
                                            const WorkerHarness& decode);
// The same request, whole on one worker.
std::vector<TokenId> RunLocal(WorkerHarness& decode, const worker_pb::Generation& generation);

}  // namespace baton
