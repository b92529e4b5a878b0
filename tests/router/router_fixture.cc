#include "tests/router/router_fixture.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "common/rpc/status_map.h"
#include "grpcpp/create_channel.h"
#include "grpcpp/generic/generic_stub.h"

namespace baton::testing {
namespace {

// Whether series of this name may be missing on a page: some come to be when they are first used.
bool ComesWithUse(const std::string& name) {
  return std::ranges::any_of(MetricTable(), [&](const MetricInfo& info) {
    const bool histogram = info.type == MetricType::kHistogram;
    const bool named =
        histogram ? name == info.name + "_sum" || name == info.name + "_count" : name == info.name;
    size_t combinations = 1;  // none as soon as one label is open
    for (const MetricLabel& label : info.labels) combinations *= label.values.size();
    return named && (combinations == 0 || info.precreated.size() < combinations);
  });
}

}  // namespace

std::string ModelDir() {
  return std::string(BATON_SOURCE_DIR) + "/tests/golden/models/llama31_hd16";
}

std::string ReasonText(const absl::Status& status) {
  return std::string(ReasonName(ReasonOf(status)));
}

RouterTest::RouterTest() {
  options_.served_model_name = "tiny";
  options_.deadlines.answer_grace = std::chrono::milliseconds(200);
}

RouterTest::~RouterTest() {
  stub_.reset();
  router_.reset();
}

FakeWorkerOptions RouterTest::WorkerOptions(worker::v1::WorkerRole role) const {
  FakeWorkerOptions options;
  options.role = role;
  options.eos_ids = {kEos, kEos + 1};
  options.max_model_len = kContext;
  options.layout.set_dtype("float32");
  options.layout.set_block_size(16);
  options.layout.set_layers(3);
  options.layout.set_kv_heads(2);
  options.layout.set_head_dim(16);
  options.layout.set_tensor_parallel(1);
  options.layout.set_layout_version(1);
  return options;
}

FakeWorker* RouterTest::AddDecode(FakeWorkerOptions options) {
  decode_.push_back(std::make_unique<FakeWorker>(&cluster_, std::move(options)));
  return decode_.back().get();
}

FakeWorker* RouterTest::AddPrefill(FakeWorkerOptions options) {
  prefill_.push_back(std::make_unique<FakeWorker>(&cluster_, std::move(options)));
  return prefill_.back().get();
}

FakeWorker* RouterTest::AddDecode(Change change) {
  FakeWorkerOptions options = WorkerOptions(worker::v1::WORKER_ROLE_DECODE);
  change(options);
  return AddDecode(std::move(options));
}

FakeWorker* RouterTest::AddPrefill(Change change) {
  FakeWorkerOptions options = WorkerOptions(worker::v1::WORKER_ROLE_PREFILL);
  change(options);
  return AddPrefill(std::move(options));
}

std::unique_ptr<Router> RouterTest::MakeRouter(MetricsRegistry* metrics,
                                               std::unique_ptr<EosLog> eos_log) {
  Router::Parts parts;
  parts.options = options_;
  parts.server = server_options_;
  parts.http = http_options_;
  parts.http_origins = http_origins_;
  parts.keys = std::move(keys_);
  parts.tracer = tracer_.get();
  for (const auto& worker : decode_) parts.options.decode_workers.push_back(worker->address());
  for (const auto& worker : prefill_) parts.options.prefill_workers.push_back(worker->address());
  auto model = LoadServedModel(ModelDir(), options_.served_model_name);
  EXPECT_TRUE(model.ok()) << model.status();
  parts.model = std::move(model).value();
  if (change_model_) change_model_(parts.model.get());
  parts.eos_log = std::move(eos_log);
  parts.metrics = metrics;
  parts.clock = &clock_;
  auto router = Router::Start(std::move(parts));
  EXPECT_TRUE(router.ok()) << router.status();
  return std::move(router).value();
}

void RouterTest::StartRouter(bool wait) {
  metrics_ = std::make_unique<MetricsRegistry>(
      MetricsOptions{.role = MetricRole::kRouter, .model_name = "tiny", .max_model_len = kContext});
  router_ = MakeRouter(metrics_.get(), std::move(eos_log_));
  stub_ = Stub(*router_);
  if (!wait) return;
  const double workers = static_cast<double>(decode_.size() + prefill_.size());
  EXPECT_TRUE(Eventually(
      [&] { return Metric("baton_router_worker_up") >= workers && router_->ready().ok(); }));
}

std::unique_ptr<v1::InferenceService::Stub> RouterTest::Stub(const Router& router) const {
  return v1::InferenceService::NewStub(
      grpc::CreateChannel(router.address(), grpc::InsecureChannelCredentials()));
}

v1::GenerateRequest RouterTest::Request(const std::string& text, int max_tokens) {
  v1::GenerateRequest request;
  request.set_text(text);
  if (max_tokens > 0) request.mutable_spec()->mutable_stop()->set_max_tokens(max_tokens);
  request.mutable_spec()->mutable_sampling()->set_temperature(0);
  return request;
}

Answer ReadAnswer(grpc::ClientReader<v1::GenerateResponse>* reader) {
  Answer answer;
  v1::GenerateResponse message;
  while (reader->Read(&message)) {
    answer.messages.push_back(message);
    if (message.has_started()) answer.started = message.started();
    if (message.has_final()) answer.final = message.final();
    if (message.has_prompt()) answer.prompt.MergeFrom(message.prompt());
    if (!message.has_delta()) continue;
    answer.text += message.delta().text();
    for (const int32_t id : message.delta().token_ids()) answer.ids.push_back(id);
    for (const auto& step : message.delta().eos_steps()) answer.eos_steps.push_back(step);
    for (const auto& logprobs : message.delta().logprobs()) answer.logprobs.push_back(logprobs);
  }
  answer.status = FromGrpcStatus(reader->Finish());
  return answer;
}

Answer RouterTest::Generate(const v1::GenerateRequest& request, grpc::ClientContext* context) {
  grpc::ClientContext own;
  const auto reader = stub_->Generate(context != nullptr ? context : &own, request);
  return ReadAnswer(reader.get());
}

std::vector<int32_t> RouterTest::Expected(const std::string& prompt, int count,
                                          const FakeModel& model) {
  std::vector<int32_t> history = {kBos};
  for (const char c : prompt) history.push_back(static_cast<unsigned char>(c));
  const size_t begin = history.size();
  for (int i = 0; i < count; ++i) history.push_back(model(history));
  return {history.begin() + static_cast<std::ptrdiff_t>(begin), history.end()};
}

std::string RouterTest::TextOf(const std::vector<int32_t>& ids) {
  std::string text;
  for (const int32_t id : ids) {
    if (id < 256) text.push_back(static_cast<char>(id));
  }
  return text;
}

double RouterTest::Metric(const std::string& series) {
  const std::string page = metrics_->Expose();
  double sum = 0;
  bool found = false;
  for (size_t at = 0; at < page.size();) {
    const size_t end = page.find('\n', at);
    const std::string line = page.substr(at, end - at);
    at = end + 1;
    // `series` is a metric's name with the beginning of its labels, or a part of a line with them.
    const size_t brace = line.find('{');
    const std::string name = series.substr(0, series.find('{'));
    const std::string labels =
        series.find('{') == std::string::npos ? "" : series.substr(series.find('{') + 1);
    if (line.substr(0, brace) != name) continue;
    if (line.find(labels) == std::string::npos) continue;
    sum += std::stod(line.substr(line.rfind(' ')));
    found = true;
  }
  EXPECT_TRUE(found || ComesWithUse(series.substr(0, series.find('{'))))
      << "the router's page has no series " << series << "; look into docs/metrics.md";
  return sum;
}

RawAnswer CallRaw(const Router& router, const std::string& method, const std::string& message) {
  const grpc::Slice slice(message);
  const grpc::ByteBuffer request(&slice, 1);
  grpc::GenericStub stub(grpc::CreateChannel(router.address(), grpc::InsecureChannelCredentials()));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(10));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareUnaryCall(&context, method, request, &queue);
  call->StartCall();
  RawAnswer answer;
  call->Finish(&answer.body, &answer.status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return answer;
}

}  // namespace baton::testing
