#include "tests/fakes/worker_harness.h"

#include <utility>

#include "common/base/check.h"
#include "common/base/crc32c.h"
#include "common/rpc/status_map.h"
#include "common/worker/kv_shape_of.h"
#include "common/worker/status_service.h"
#include "grpcpp/create_channel.h"
#include "tests/fakes/byte_tokenizer.h"

namespace baton {
namespace {

template <typename Rep, typename Period>
std::chrono::system_clock::time_point In(std::chrono::duration<Rep, Period> time) {
  return std::chrono::system_clock::now() + time;
}

}  // namespace

EngineOptions WorkerHarness::DefaultEngine() {
  EngineOptions options;
  options.max_model_len = 256;
  options.max_num_seqs = 8;
  options.vocab_size = 1000;
  options.eos_ids = {2};
  return options;
}

namespace {

// Takes 64 KiB at most before somebody reads.
std::shared_ptr<grpc::Channel> NarrowChannel(const std::string& address) {
  grpc::ChannelArguments arguments;
  arguments.SetInt(GRPC_ARG_HTTP2_BDP_PROBE, 0);
  arguments.SetInt(GRPC_ARG_HTTP2_STREAM_LOOKAHEAD_BYTES, 64 << 10);
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  return grpc::CreateCustomChannel(address, grpc::InsecureChannelCredentials(), arguments);
}

}  // namespace

WorkerHarness::WorkerHarness(Options options)
    : options_(std::move(options)),
      arena_(options_.num_blocks, options_.block_size),
      control_(std::make_shared<FakeRunnerControl>()) {
  FakeModelOptions model = options_.model;
  model.vocab_size = options_.engine.vocab_size;
  auto engine = Engine::Start(options_.engine, arena_.kv(),
                              std::make_unique<FakeRunner>(arena_.kv(), model, control_), &clock_);
  BATON_CHECK(engine.ok()) << engine.status().ToString();
  engine_ = *std::move(engine);
  WorkerIdentity identity{.role = options_.role,
                          .elastic = options_.elastic,
                          .incarnation = RandomBits(),
                          .model_fingerprint = options_.fingerprint,
                          .shape = KvShapeOf(arena_.kv().layout, 1, arena_.kv().layout.kv_heads, 1),
                          .numerics = options_.numerics,
                          .compute_dtype = "float32",
                          .max_model_len = options_.engine.max_model_len,
                          .vocab_size = options_.engine.vocab_size,
                          .probe_digest = options_.probe_digest,
                          .tls = options_.tls.enabled()};
  core_ = std::make_unique<WorkerCore>(
      std::move(identity), engine_.get(), &clock_, options_.timeouts, &probe_,
      [this](const absl::Status& status) { fault_ = status; }, options_.blocks);
  guides_ = std::make_unique<GuideCompiler>(
      std::make_shared<ByteTokenizer>(std::vector<std::string>(), std::vector<std::string>{"</s>"}),
      GuideCompilerOptions{.width = options_.engine.vocab_size,
                           .eos_ids = options_.engine.eos_ids});
  if (options_.elastic) core_->BeginRoles(options_.roles);
  if (options_.guides) core_->SetGuides(guides_.get());
  receiver_ = std::make_unique<KvReceiver>(core_.get());
  ChannelOptions to_decode{.tls = options_.push_tls.value_or(options_.tls), .peer_role = "decode"};
  transport_ = std::make_unique<GrpcStreamTransport>(to_decode, &clock_, options_.blocks);
  services_.push_back(MakeStatusService(core_.get()));
  if (options_.role == WorkerRole::kDecode || options_.elastic) {
    services_.push_back(MakeDecodeService(core_.get(), receiver_.get()));
    services_.push_back(MakeKvTransferService(receiver_.get(), options_.tls.enabled()));
  }
  if (options_.role == WorkerRole::kPrefill || options_.elastic) {
    services_.push_back(MakePrefillService(core_.get(), transport_.get()));
  }
  std::vector<grpc::Service*> raw;
  for (const auto& service : services_) raw.push_back(service.get());
  auto server = RpcServer::Start({.tls = options_.tls}, raw);
  BATON_CHECK(server.ok()) << server.status().ToString();
  server_ = *std::move(server);
  auto channel = MakeChannel(
      address(), {.tls = options_.tls, .peer_role = std::string(WorkerRoleName(options_.role))});
  BATON_CHECK(channel.ok()) << channel.status().ToString();
  channel_ = options_.narrow_client ? NarrowChannel(address()) : *std::move(channel);
}

WorkerHarness::~WorkerHarness() {
  control_->Resume();
  channel_.reset();
  server_->Shutdown(std::chrono::milliseconds(0));
  transport_.reset();  // waits for pushes, which tell the core when they are done
  core_.reset();       // stops the engine
}

bool WorkerHarness::Idle() {
  return Eventually([this] {
    const EngineFigures f = figures();
    return f.blocks_free + f.blocks_cached == f.blocks_total && f.running == 0 && f.waiting == 0 &&
           f.reserved == 0 && core_->streams() == 0 && receiver_->granted() == 0;
  });
}

worker_pb::Generation MakeGeneration(int32_t prompt_tokens, int32_t max_tokens, int32_t salt) {
  SequenceSpec spec;
  for (int32_t i = 0; i < prompt_tokens; ++i) spec.prompt.push_back(3 + (i * 7 + salt * 13) % 900);
  spec.sampling.temperature = 0;
  spec.stop.max_tokens = max_tokens;
  worker_pb::Generation generation;
  SpecToProto(spec, &generation);
  generation.set_request_id("r1");
  generation.set_attempt(1);
  generation.set_model_fingerprint("fp-a");
  generation.set_eos_signals(true);
  return generation;
}

DecodeCall::DecodeCall(WorkerHarness& worker, const worker_pb::DecodeStart& start,
                       std::chrono::milliseconds deadline)
    : stub_(worker_pb::DecodeService::NewStub(worker.channel())) {
  context_.set_deadline(In(deadline));
  stream_ = stub_->Decode(&context_);
  worker_pb::DecodeRequest request;
  *request.mutable_start() = start;
  stream_->Write(request);
}

void DecodeCall::ReadAll() {
  worker_pb::DecodeResponse response;
  const auto take = [this](const worker_pb::Token& token) {
    BATON_CHECK(tokens.empty() || token.index() == next_index_) << token.index();
    next_index_ = token.index() + 1;
    tokens.push_back(token.id());
  };
  while (Read(&response)) {
    if (response.has_started()) {
      started = response.started();
      take(response.started().token());
    }
    for (const worker_pb::Token& token : response.tokens().tokens()) take(token);
    if (response.has_final()) final = response.final();
  }
}

void DecodeCall::Release(worker_pb::FinishCause cause) {
  worker_pb::DecodeRequest request;
  request.mutable_release()->set_cause(cause);
  stream_->Write(request);
}

absl::Status DecodeCall::Finish() { return FromGrpcStatus(stream_->Finish()); }

PrefillCall::PrefillCall(WorkerHarness& worker, const worker_pb::PrefillRequest& request,
                         std::chrono::milliseconds deadline)
    : stub_(worker_pb::PrefillService::NewStub(worker.channel())) {
  context_.set_deadline(In(deadline));
  stream_ = stub_->Prefill(&context_, request);
}

void PrefillCall::ReadAll() {
  worker_pb::PrefillResponse response;
  while (Read(&response)) {
    if (response.has_first_token()) first = response.first_token();
    if (response.has_final()) final = response.final();
  }
}

absl::Status PrefillCall::Finish() { return FromGrpcStatus(stream_->Finish()); }

PushCall::PushCall(WorkerHarness& worker, std::chrono::milliseconds deadline)
    : stub_(worker_pb::KvTransferService::NewStub(worker.channel())) {
  context_.set_deadline(In(deadline));
  writer_ = stub_->Push(&context_, &response_);
}

bool PushCall::Open(const worker_pb::Ticket& ticket, const KvShape& shape,
                    const std::string& fingerprint, const std::string& numerics) {
  worker_pb::PushRequest request;
  *request.mutable_open()->mutable_ticket() = ticket;
  KvShapeToProto(shape, request.mutable_open()->mutable_layout());
  request.mutable_open()->set_model_fingerprint(fingerprint);
  request.mutable_open()->set_numerics(numerics);
  return Write(request);
}

bool PushCall::Piece(int32_t ordinal, int64_t offset, const std::string& data) {
  worker_pb::PushRequest request;
  request.mutable_piece()->set_ordinal(ordinal);
  request.mutable_piece()->set_offset(offset);
  request.mutable_piece()->set_data(data);
  request.mutable_piece()->set_crc32c(base::Crc32c(std::as_bytes(std::span(data))));
  return Write(request);
}

bool PushCall::BadPiece(int32_t ordinal, int64_t offset, const std::string& data) {
  worker_pb::PushRequest request;
  request.mutable_piece()->set_ordinal(ordinal);
  request.mutable_piece()->set_offset(offset);
  request.mutable_piece()->set_data(data);
  request.mutable_piece()->set_crc32c(base::Crc32c(std::as_bytes(std::span(data))) ^ 1);
  return Write(request);
}

bool PushCall::Progress() {
  worker_pb::PushRequest request;
  request.mutable_progress()->set_computed_tokens(1);
  return Write(request);
}

bool PushCall::Commit(int32_t blocks, int64_t bytes, int32_t index, int32_t token) {
  worker_pb::PushRequest request;
  request.mutable_commit()->set_block_count(blocks);
  request.mutable_commit()->set_byte_count(bytes);
  request.mutable_commit()->mutable_first_token()->set_index(index);
  request.mutable_commit()->mutable_first_token()->set_id(token);
  return Write(request) && Close();
}

bool PushCall::Close() { return !std::exchange(closed_, true) && writer_->WritesDone(); }

absl::Status PushCall::Finish() {
  Close();
  return FromGrpcStatus(writer_->Finish());
}

worker_pb::DecodeStart SplitStart(const worker_pb::Generation& generation) {
  worker_pb::DecodeStart start;
  *start.mutable_generation() = generation;
  return start;
}

worker_pb::DecodeStart LocalStart(const worker_pb::Generation& generation) {
  worker_pb::DecodeStart start = SplitStart(generation);
  start.set_local_prefill(true);
  return start;
}

ReservedCall::ReservedCall(WorkerHarness& decode, const worker_pb::Generation& generation)
    : call(decode, SplitStart(generation)) {
  worker_pb::DecodeResponse response;
  BATON_CHECK(call.Read(&response)) << "no reservation";
  reserved = response.reserved();
}

worker_pb::PrefillRequest PrefillRequestFor(const worker_pb::Generation& generation,
                                            const worker_pb::Reserved& reserved,
                                            const WorkerHarness& decode) {
  worker_pb::PrefillRequest request;
  *request.mutable_generation() = generation;
  *request.mutable_ticket() = reserved.ticket();
  request.set_push_address(decode.address());
  request.set_skip_blocks(reserved.cached_blocks());
  KvShapeToProto(decode.shape(), request.mutable_layout());
  return request;
}

SplitResult RunSplit(WorkerHarness& prefill, WorkerHarness& decode,
                     const worker_pb::Generation& generation) {
  SplitResult result;
  DecodeCall decode_call(decode, SplitStart(generation));
  worker_pb::DecodeResponse reserved;
  if (!decode_call.Read(&reserved) || !reserved.has_reserved()) {
    result.decode = decode_call.Finish();
    return result;
  }
  PrefillCall prefill_call(prefill, PrefillRequestFor(generation, reserved.reserved(), decode));
  prefill_call.ReadAll();
  result.prefill = prefill_call.Finish();
  if (prefill_call.final) result.prefill_final = *prefill_call.final;
  const bool ends = prefill_call.first && prefill_call.first->has_ending();
  if (!result.prefill.ok()) {
    decode_call.Cancel();
  } else if (ends) {
    decode_call.Release(prefill_call.first->ending().cause());
  }
  decode_call.ReadAll();
  result.decode = decode_call.Finish();
  result.tokens = decode_call.tokens;
  if (ends) result.tokens.push_back(prefill_call.first->token().id());
  result.started = decode_call.started;
  result.decode_final = decode_call.final;
  if (result.started && prefill_call.first) {
    BATON_CHECK(result.started->token().id() == prefill_call.first->token().id());
  }
  return result;
}

std::vector<TokenId> RunLocal(WorkerHarness& decode, const worker_pb::Generation& generation) {
  DecodeCall call(decode, LocalStart(generation));
  call.ReadAll();
  const absl::Status status = call.Finish();
  BATON_CHECK(status.ok()) << status.ToString();
  return call.tokens;
}

}  // namespace baton
