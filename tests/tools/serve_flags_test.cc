#include "tools/serve/serve_flags.h"

#include <map>

#include "common/config/bind.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tools/serve/supervisor.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;

struct Parsed {
  explicit Parsed(const std::vector<std::string>& arguments) {
    BindServe(&set, &flags);
    status = set.Parse(arguments, {});
  }
  FlagSet set{"baton serve", "serve", ""};
  ServeFlags flags;
  absl::Status status;
};

TEST(BindServe, DefaultsAreTheDocumentedOnes) {
  const Parsed parsed({"m"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_EQ(parsed.flags.prefill, 1);
  EXPECT_EQ(parsed.flags.decode, 1);
  EXPECT_FALSE(parsed.flags.unified);
  EXPECT_EQ(parsed.flags.router.server.port, 50051);
  EXPECT_EQ(parsed.flags.router.server.admin_port, 8080);
  EXPECT_EQ(parsed.flags.router.ignore_eos, IgnoreEosFlag::kAllow);
  EXPECT_EQ(parsed.flags.router.eos_log, "./eos_probabilities.jsonl");
}

TEST(BindServe, RefusesNonsense) {
  EXPECT_FALSE(Parsed({}).status.ok());
  EXPECT_FALSE(Parsed({"m", "--prefill", "0"}).status.ok());
  EXPECT_FALSE(Parsed({"m", "--mode", "both"}).status.ok());
  EXPECT_FALSE(Parsed({"m", "--host", "0.0.0.0"}).status.ok()) << "without TLS or --insecure";
}

TEST(BindServe, RefusesWhatIsAboutWorkersOrCachesThatThereAreNot) {
  const auto error = [](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), "m");
    return std::string(Parsed(arguments).status.message());
  };
  for (const std::string flag :
       {"--prefill=3", "--local-prefill-below=64", "--kv-transport=grpc"}) {
    EXPECT_THAT(error({"--mode=unified", flag}),
                HasSubstr(flag.substr(0, flag.find('=')) + " with --mode unified"));
    EXPECT_EQ(error({flag}), "");
  }
  EXPECT_EQ(error({"--mode=unified", "--prefill=1", "--local-prefill-below=0"}), "")
      << "as a printed configuration says it";
  EXPECT_THAT(error({"--mode=unified", "--elastic"}), HasSubstr("--elastic with --mode unified"));
  EXPECT_THAT(error({"--share-prefix-cache", "--no-enable-prefix-caching"}),
              HasSubstr("no prefix cache to share"));
}

TEST(BindServe, ANameThatIsNoUtf8IsRefused) {
  EXPECT_TRUE(Parsed({"\xff", "--served-model-name=tiny"}).status.ok());
  EXPECT_THAT(std::string(Parsed({"\xff"}).status.message()), HasSubstr("it is not UTF-8"));
}

TEST(BindServe, TheQueueBoundIsTheRouters) {
  const Parsed parsed({"m", "--max-num-queued-reqs", "7"});
  EXPECT_EQ(parsed.flags.router.max_num_queued_reqs, 7);
  EXPECT_THAT(RouterArguments(parsed.set, parsed.flags, {}, {"d:1"}),
              Contains("--max-num-queued-reqs=7"));
  EXPECT_THAT(WorkerArguments(parsed.set, parsed.flags, {1}, {}),
              Not(Contains("--max-num-queued-reqs=7")));
}

TEST(WorkerArguments, PassEngineFlagsThatWereGiven) {
  const Parsed parsed({"m", "--max-num-seqs", "3", "--kv-cache-tokens", "64", "--dtype", "float32",
                       "--no-enable-prefix-caching", "--log-level", "debug", "--port", "5"});
  ASSERT_TRUE(parsed.status.ok());
  EXPECT_THAT(WorkerArguments(parsed.set, parsed.flags, {2}, {}),
              ElementsAre("m", "--host=127.0.0.1", "--port=0", "--admin-port=0", "--max-num-seqs=3",
                          "--kv-cache-tokens=64", "--enable-prefix-caching=false",
                          "--dtype=float32", "--threads=2", "--log-level=debug"));
}

TEST(WorkerArguments, AllTraceToOneCollectorAndTheRouterChoosesWhat) {
  const Parsed parsed({"m", "--otlp-endpoint", "http://c:4318", "--trace-sample", "0.5"});
  const std::vector<std::string> router = RouterArguments(parsed.set, parsed.flags, {}, {"d:1"});
  EXPECT_THAT(router, Contains("--otlp-endpoint=http://c:4318"));
  EXPECT_THAT(router, Contains("--trace-sample=0.5"));
  const std::vector<std::string> worker = WorkerArguments(parsed.set, parsed.flags, {1}, {});
  EXPECT_THAT(worker, Contains("--otlp-endpoint=http://c:4318"));
  EXPECT_THAT(worker, Not(Contains(HasSubstr("trace-sample"))));
}

TEST(WorkerArguments, TheModelHasOneNameInAllMetrics) {
  const Parsed parsed({"m", "--served-model-name", "n"});
  EXPECT_THAT(WorkerArguments(parsed.set, parsed.flags, {1}, {}),
              Contains("--served-model-name=n"));
}

TEST(WorkerArguments, GivenThreadsAreTakenAsTheyAre) {
  const Parsed parsed({"m", "--threads", "5"});
  EXPECT_THAT(WorkerArguments(parsed.set, parsed.flags, {2}, {}), Contains("--threads=5"));
  EXPECT_THAT(WorkerArguments(parsed.set, parsed.flags, {2}, {}), Not(Contains("--threads=2")));
}

TEST(WorkerArguments, WorkersShareWeightsUnlessTheyAreToldWhere) {
  const MachineShare share = {.threads = 1, .load_cache = "/home/me/.cache/baton"};
  const Parsed plain({"m"});
  EXPECT_THAT(WorkerArguments(plain.set, plain.flags, share, {}),
              Contains("--load-cache=/home/me/.cache/baton"));
  EXPECT_THAT(WorkerArguments(plain.set, plain.flags, {.threads = 1}, {}),
              Not(Contains(HasSubstr("load-cache"))));
  for (const std::string given : {"off", "/srv/cache"}) {
    const Parsed parsed({"m", "--load-cache", given});
    const auto arguments = WorkerArguments(parsed.set, parsed.flags, share, {});
    EXPECT_THAT(arguments, Contains("--load-cache=" + given));
    EXPECT_THAT(arguments, Not(Contains("--load-cache=" + share.load_cache)));
  }
}

TEST(WorkerArguments, ALaterLifeComesBackWhereItWas) {
  const Parsed parsed({"m"});
  const auto arguments = WorkerArguments(parsed.set, parsed.flags, {1}, {4001, 4002});
  EXPECT_THAT(arguments, Contains("--port=4001"));
  EXPECT_THAT(arguments, Contains("--admin-port=4002"));
}

TEST(WorkerArguments, WorkersThatShareAGpuDivideItAndAreOnOneHost) {
  const Parsed shared({"m", "--device", "cuda"});
  const auto arguments =
      WorkerArguments(shared.set, shared.flags, {.threads = 1, .gpu_sharers = 2}, {});
  EXPECT_THAT(arguments, Contains("--gpu-memory-utilization=0.45"));
  EXPECT_THAT(arguments, Contains("--kv-transport=cuda_ipc"));
  const Parsed chosen(
      {"m", "--device", "cuda", "--kv-transport", "nccl", "--gpu-memory-utilization", "0.8"});
  const auto alone = WorkerArguments(chosen.set, chosen.flags, {.threads = 1}, {});
  EXPECT_THAT(alone, Contains("--kv-transport=nccl"));
  EXPECT_THAT(alone, Not(Contains("--kv-transport=cuda_ipc")));
  EXPECT_THAT(alone, Contains("--gpu-memory-utilization=0.8"));
  const Parsed unified({"m", "--device", "cuda", "--mode", "unified"});
  EXPECT_THAT(WorkerArguments(unified.set, unified.flags, {.threads = 1}, {}),
              Not(Contains("--kv-transport=cuda_ipc")));
  const Parsed host({"m"});
  EXPECT_THAT(WorkerArguments(host.set, host.flags, {.threads = 1, .gpu_sharers = 2}, {}),
              Not(Contains("--gpu-memory-utilization=0.45")));
}

TEST(WorkerArguments, OnlyWhoSeesEndsKeepsWhatItLearns) {
  const Parsed parsed({"m", "--predictor", "off.json", "--predictor-state", "s"});
  const auto with = [&](int32_t learner) {
    return WorkerArguments(parsed.set, parsed.flags, {.threads = 1, .learner = learner}, {});
  };
  EXPECT_THAT(with(-1), Contains("--predictor=off.json"));
  EXPECT_THAT(with(-1), Not(Contains(::testing::HasSubstr("--predictor-state"))));
  EXPECT_THAT(with(0), Contains("--predictor-state=s"));
  EXPECT_THAT(with(2), Contains("--predictor-state=s.2"));
}

// What serve spells must be what the binaries read.
TEST(WorkerArguments, AreUnderstoodByTheWorker) {
  const Parsed parsed({"m",
                       "--kv-cache-memory",
                       "3MiB",
                       "--prefill-batch-wait-ms",
                       "5",
                       "--drain-timeout",
                       "2s",
                       "--isa",
                       "avx2",
                       "--enable-failpoints",
                       "--async-scheduling",
                       "on",
                       "--tensor-parallel-size",
                       "4",
                       "--quantization",
                       "fp8",
                       "--load-cache",
                       "a dir",
                       "--speculative",
                       "ngram",
                       "--probe",
                       "p.json",
                       "--elastic",
                       "--elastic-cool-down",
                       "3s",
                       "--elastic-tpot",
                       "40ms"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  WorkerFlags worker;
  FlagSet set("baton-decode", "decode", "");
  BindDecodeWorker(&set, &worker);
  const auto status = set.Parse(WorkerArguments(parsed.set, parsed.flags, {2}, {}), {});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(worker.model_dir, "m");
  EXPECT_EQ(worker.engine.kv_cache_memory, 3 << 20);
  EXPECT_EQ(worker.engine.prefill_batch_wait, std::chrono::milliseconds(5));
  EXPECT_EQ(worker.engine.isa, IsaFlag::kAvx2);
  EXPECT_EQ(worker.engine.threads, 2);
  EXPECT_EQ(worker.engine.async_scheduling, AsyncSchedulingFlag::kOn);
  EXPECT_EQ(worker.engine.tensor_parallel_size, 4);
  EXPECT_EQ(worker.engine.quantization, QuantizationFlag::kFp8);
  EXPECT_EQ(worker.engine.load_cache, "a dir");
  EXPECT_EQ(worker.engine.speculative, SpeculativeFlag::kNgram);
  EXPECT_EQ(worker.engine.probe, "p.json");
  EXPECT_TRUE(worker.roles.elastic);
  EXPECT_EQ(worker.roles.cool_down, std::chrono::seconds(3));
  EXPECT_EQ(worker.roles.step_target, std::chrono::milliseconds(40));
  EXPECT_EQ(worker.server.drain_timeout, std::chrono::seconds(2));
  EXPECT_TRUE(worker.server.enable_failpoints);
}

TEST(WorkerArguments, WhoGeneratesHasTheDraftModel) {
  const Parsed parsed({"m", "--draft-model", "d", "--draft-kv-cache-tokens", "640"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_THAT(WorkerArguments(parsed.set, parsed.flags, {1}, {}),
              AllOf(Contains("--draft-model=d"), Contains("--draft-kv-cache-tokens=640")));
  const auto prefill =
      WorkerArguments(parsed.set, parsed.flags, {.threads = 1, .generates = false}, {});
  EXPECT_THAT(prefill, Not(Contains(HasSubstr("--draft"))));
  EXPECT_THAT(RouterArguments(parsed.set, parsed.flags, {}, {"a:1"}),
              Not(Contains(HasSubstr("--draft"))));
  EXPECT_THAT(std::string(Parsed({"m", "--draft-model=d", "--speculative=ngram"}).status.message()),
              HasSubstr("--draft-model with --speculative ngram"));
}

TEST(WorkerArguments, WhoGeneratesHasTheSwapSpace) {
  const Parsed parsed({"m", "--swap-space", "64MiB"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_THAT(WorkerArguments(parsed.set, parsed.flags, {1}, {}),
              Contains(HasSubstr("--swap-space=")));
  const auto prefill =
      WorkerArguments(parsed.set, parsed.flags, {.threads = 1, .generates = false}, {});
  EXPECT_THAT(prefill, Not(Contains(HasSubstr("--swap-space"))));
}

// `baton config print` gives every flag its default in a file.
TEST(WorkerArguments, PrefillWorkersUnderstandThemWhateverIsSaidOfRoles) {
  const std::vector<std::vector<std::string>> given = {
      {"m", "--no-elastic"},
      {"m", "--elastic=false", "--elastic-cool-down=5s", "--elastic-tpot=0s"}};
  for (const std::vector<std::string>& arguments : given) {
    const Parsed parsed(arguments);
    ASSERT_TRUE(parsed.status.ok()) << parsed.status;
    WorkerFlags worker;
    FlagSet set("baton-prefill", "prefill", "");
    BindWorker(&set, &worker);
    const auto status = set.Parse(WorkerArguments(parsed.set, parsed.flags, {1}, {}), {});
    EXPECT_TRUE(status.ok()) << status;
  }
  FlagSet all("baton serve", "serve", "");
  ServeFlags defaults;
  BindServe(&all, &defaults);
  std::vector<std::string> file = {"m"};
  for (const Flag& flag : all.flags()) {
    for (const std::string& value : flag.get()) {
      if (flag.group == "Roles") file.push_back("--" + flag.name + "=" + value);
    }
  }
  ASSERT_EQ(file.size(), 4u);
  const Parsed parsed(file);
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_THAT(WorkerArguments(parsed.set, parsed.flags, {1}, {}),
              Not(Contains(HasSubstr("elastic"))));
}

TEST(BindServe, ElasticWorkersAreNotUnifiedAndMoveTheirKvByMessages) {
  EXPECT_THAT(std::string(Parsed({"m", "--elastic", "--mode", "unified"}).status.message()),
              ::testing::HasSubstr("no role to change"));
  const Parsed parsed({"m", "--elastic", "--device", "cuda"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  EXPECT_THAT(WorkerArguments(parsed.set, parsed.flags, {1}, {}),
              Not(Contains("--kv-transport=cuda_ipc")));
}

TEST(RouterArguments, AreUnderstoodByTheRouter) {
  const Parsed parsed({"m",
                       "--port",
                       "0",
                       "--host",
                       "0.0.0.0",
                       "--insecure",
                       "--served-model-name",
                       "a b",
                       "--seed",
                       "3",
                       "--eos-log",
                       "off",
                       "--eos-log-sample",
                       "0.5",
                       "--client-buffer",
                       "1MiB",
                       "--trust-tenant-header",
                       "--tenant",
                       "a:weight=2.5,max-running=3",
                       "--tenant=b:max-queued=4",
                       "--tenant-max-running=9"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  RouterFlags router;
  FlagSet set("baton-router", "router", "");
  BindRouter(&set, &router);
  const auto status =
      set.Parse(RouterArguments(parsed.set, parsed.flags, {"p:1"}, {"d:1", "d:2"}), {});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(router.server.host, "0.0.0.0");
  EXPECT_EQ(router.server.port, 0);
  EXPECT_EQ(router.server.admin_port, 8080);
  EXPECT_EQ(router.served_model_name, "a b");
  EXPECT_EQ(router.seed, 3u);
  EXPECT_EQ(router.eos_log, "");
  EXPECT_EQ(router.eos_log_sample, 0.5);
  EXPECT_EQ(router.ignore_eos, IgnoreEosFlag::kAllow);
  EXPECT_EQ(router.client_buffer, 1 << 20);
  EXPECT_TRUE(router.trust_tenant_header);
  EXPECT_EQ(router.tenants["a"].weight, 2.5);
  EXPECT_EQ(router.tenants["a"].max_running, 3);
  EXPECT_EQ(router.tenants["b"].max_queued, 4);
  EXPECT_EQ(router.tenant_max_running, 9);
  EXPECT_EQ(router.worker_start_timeout, SupervisorOptions().start_timeout);
  EXPECT_THAT(router.prefill_workers, ElementsAre("p:1"));
  EXPECT_THAT(router.decode_workers, ElementsAre("d:1", "d:2"));
}

TEST(RouterArguments, ThePortOfHttpIsFreeWhereThatOfGrpcIs) {
  const auto last = [](const std::vector<std::string>& given) {
    const Parsed parsed(given);
    std::string port;
    for (const std::string& argument : RouterArguments(parsed.set, parsed.flags, {}, {"d:1"})) {
      if (argument.starts_with("--http-port=")) port = argument;
    }
    return port;
  };
  EXPECT_EQ(last({"m"}), "--http-port=8000");
  EXPECT_EQ(last({"m", "--port", "0"}), "--http-port=0");
  EXPECT_EQ(last({"m", "--port", "0", "--http-port", "9000"}), "--http-port=9000");
  EXPECT_EQ(last({"m", "--http-port", "off"}), "--http-port=off");
}

TEST(RouterArguments, OnlyAnEosLogThatWasAskedForMayStopTheService) {
  for (const std::vector<std::string>& given :
       {std::vector<std::string>{"m"}, {"m", "--eos-log", "./eos_probabilities.jsonl"}}) {
    const Parsed parsed(given);
    RouterFlags router;
    FlagSet set("baton-router", "router", "");
    BindRouter(&set, &router);
    const auto status = set.Parse(RouterArguments(parsed.set, parsed.flags, {}, {"d:1"}), {});
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_EQ(router.eos_log, "./eos_probabilities.jsonl");
    EXPECT_EQ(router.eos_log_optional, given.size() == 1);
  }
}

TEST(ChildArguments, TlsIsForEveryProcess) {
  const Parsed parsed({"m", "--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a"});
  ASSERT_TRUE(parsed.status.ok()) << parsed.status;
  for (const auto& arguments : {WorkerArguments(parsed.set, parsed.flags, {1}, {}),
                                RouterArguments(parsed.set, parsed.flags, {}, {"d:1"})}) {
    EXPECT_THAT(arguments, Contains("--tls-cert=c"));
    EXPECT_THAT(arguments, Contains("--tls-ca=a"));
  }
}

TEST(DivideThreads, GivesEveryWorkerAtLeastOneAndTheRestToTheFirst) {
  EXPECT_THAT(DivideThreads(2, 2), ElementsAre(1, 1));
  EXPECT_THAT(DivideThreads(8, 3), ElementsAre(3, 3, 2));
  EXPECT_THAT(DivideThreads(1, 3), ElementsAre(1, 1, 1));
  EXPECT_THAT(DivideThreads(4, 1), ElementsAre(4));
}

TEST(ChildEnvironment, HasNoSettingsButWhatLibgompMustKnow) {
  setenv("BATON_PORT", "5", 1);
  setenv("BATON_FAILPOINT", "decoding:stop", 1);
  for (const bool failpoints : {true, false}) {
    const auto environment = ChildEnvironment(failpoints);
    EXPECT_THAT(environment, Contains(StartsWith("GOMP_SPINCOUNT=")));
    EXPECT_THAT(environment, Contains(StartsWith("PATH=")));
    EXPECT_THAT(environment, Not(Contains(HasSubstr("BATON_PORT"))));
    EXPECT_EQ(std::count(environment.begin(), environment.end(), "BATON_FAILPOINT=decoding:stop"),
              failpoints ? 1 : 0);
  }
  unsetenv("BATON_PORT");
  unsetenv("BATON_FAILPOINT");
}

}  // namespace
}  // namespace baton
