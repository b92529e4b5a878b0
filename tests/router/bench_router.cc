// What the router adds to a request: the same one-token request straight to a fake worker's Decode
// stream, and through a router in front of it, taken in turns.
//
//   bench_router [REQUESTS]
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "baton/v1/inference.grpc.pb.h"
#include "common/base/check.h"
#include "common/base/log.h"
#include "grpcpp/create_channel.h"
#include "router/router.h"
#include "tests/fakes/eventually.h"
#include "tests/fakes/fake_worker.h"

namespace baton::testing {
namespace {

using SteadyTime = std::chrono::steady_clock;

double Milliseconds(SteadyTime::time_point since) {
  return std::chrono::duration<double, std::milli>(SteadyTime::now() - since).count();
}

FakeWorkerOptions DecodeOptions() {
  FakeWorkerOptions options;
  options.layout.set_block_size(16);
  options.layout.set_layers(3);
  options.layout.set_kv_heads(2);
  options.layout.set_head_dim(16);
  options.layout.set_tensor_parallel(1);
  return options;
}

double Direct(worker::v1::DecodeService::Stub* stub) {
  worker::v1::DecodeRequest request;
  worker::v1::Generation* generation = request.mutable_start()->mutable_generation();
  for (int id = 0; id < 128; ++id) generation->add_prompt_ids(id);
  generation->mutable_stopping()->set_max_tokens(1);
  request.mutable_start()->set_local_prefill(true);
  const auto begin = SteadyTime::now();
  grpc::ClientContext context;
  const auto stream = stub->Decode(&context);
  stream->Write(request);
  worker::v1::DecodeResponse response;
  while (stream->Read(&response) && !response.has_final()) {
  }
  const double took = Milliseconds(begin);
  stream->WritesDone();
  stream->Finish();
  return took;
}

double ThroughRouter(v1::InferenceService::Stub* stub) {
  v1::GenerateRequest request;
  for (int id = 0; id < 128; ++id) request.mutable_token_ids()->add_ids(id);
  request.mutable_spec()->mutable_stop()->set_max_tokens(1);
  const auto begin = SteadyTime::now();
  grpc::ClientContext context;
  const auto stream = stub->Generate(&context, request);
  v1::GenerateResponse response;
  while (stream->Read(&response) && !response.has_final()) {
  }
  const double took = Milliseconds(begin);
  BATON_CHECK(stream->Finish().ok());
  return took;
}

double Percentile(std::vector<double> values, double p) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(p * static_cast<double>(values.size() - 1))];
}

int Run(int requests) {
  FakeCluster cluster;
  FakeWorker worker(&cluster, DecodeOptions());
  base::SteadyClock clock;
  MetricsRegistry metrics({.role = MetricRole::kRouter, .model_name = "bench"});
  Router::Parts parts;
  parts.options.served_model_name = "bench";
  parts.options.decode_workers = {worker.address()};
  parts.model = *LoadServedModel(
      std::string(BATON_SOURCE_DIR) + "/tests/golden/models/llama31_hd16", "bench");
  parts.metrics = &metrics;
  parts.clock = &clock;
  const auto router = *Router::Start(std::move(parts));
  BATON_CHECK(Eventually([&] { return router->ready().ok(); }));
  const auto direct = worker::v1::DecodeService::NewStub(
      grpc::CreateChannel(worker.address(), grpc::InsecureChannelCredentials()));
  const auto routed = v1::InferenceService::NewStub(
      grpc::CreateChannel(router->address(), grpc::InsecureChannelCredentials()));
  std::vector<double> without, with;
  for (int i = -requests / 10; i < requests; ++i) {
    const double a = Direct(direct.get());
    const double b = ThroughRouter(routed.get());
    if (i < 0) continue;  // warm-up
    without.push_back(a);
    with.push_back(b);
  }
  for (const double p : {0.5, 0.9, 0.99}) {
    std::printf("p%-3.0f direct %.3f ms, routed %.3f ms, the router adds %.3f ms\n", 100 * p,
                Percentile(without, p), Percentile(with, p),
                Percentile(with, p) - Percentile(without, p));
  }
  return 0;
}

}  // namespace
}  // namespace baton::testing

int main(int argc, char** argv) {
  spdlog::set_level(spdlog::level::warn);
  return baton::testing::Run(argc > 1 ? std::max(10, std::atoi(argv[1])) : 2000);
}
