#include "common/config/bind.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/config/bind_fixture.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(BindWorker, ReadsEveryEngineFlag) {
  WorkerFlags flags = DefaultDecodeFlags();
  const absl::Status status = ParseWorker({"m",
                                           "--max-model-len",
                                           "100",
                                           "--max-num-seqs",
                                           "7",
                                           "--max-prefill-tokens",
                                           "64",
                                           "--max-num-batched-tokens",
                                           "1",
                                           "--kv-cache-tokens",
                                           "4096",
                                           "--block-size",
                                           "32",
                                           "--no-enable-prefix-caching",
                                           "--prefill-batch-wait-ms",
                                           "5",
                                           "--dtype",
                                           "bfloat16",
                                           "--kv-dtype",
                                           "float32",
                                           "--device",
                                           "cpu",
                                           "--isa",
                                           "avx2",
                                           "--threads",
                                           "2",
                                           "--policy",
                                           "fcfs",
                                           "--async-scheduling",
                                           "on",
                                           "--max-num-queued-reqs",
                                           "9"},
                                          &flags);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(flags.model_dir, "m");
  EXPECT_EQ(flags.engine.max_model_len, 100);
  EXPECT_EQ(flags.engine.max_num_seqs, 7);
  EXPECT_EQ(flags.engine.max_prefill_tokens, 64);
  EXPECT_EQ(flags.engine.max_num_batched_tokens, 1);
  EXPECT_EQ(flags.engine.kv_cache_tokens, 4096);
  EXPECT_EQ(flags.engine.block_size, 32);
  EXPECT_FALSE(flags.engine.enable_prefix_caching);
  EXPECT_EQ(flags.engine.prefill_batch_wait, std::chrono::milliseconds(5));
  EXPECT_EQ(flags.engine.dtype, DtypeFlag::kBfloat16);
  EXPECT_EQ(flags.engine.kv_dtype, KvDtypeFlag::kFloat32);
  EXPECT_EQ(flags.engine.isa, IsaFlag::kAvx2);
  EXPECT_EQ(flags.engine.threads, 2);
  EXPECT_TRUE(SchedulesAsync(flags.engine));
  EXPECT_EQ(flags.engine.max_num_queued_reqs, 9);
}

TEST(BindWorker, AsyncSchedulingFollowsTheDeviceUnlessGiven) {
  EngineFlags flags;
  EXPECT_FALSE(SchedulesAsync(flags));
  flags.device = DeviceFlag::kCuda;
  EXPECT_TRUE(SchedulesAsync(flags));
  WorkerFlags worker;
  ASSERT_TRUE(ParseWorker({"m", "--async-scheduling", "off"}, &worker).ok());
  worker.engine.device = DeviceFlag::kCuda;
  EXPECT_FALSE(SchedulesAsync(worker.engine));
  EXPECT_THAT(WorkerError({"m", "--async-scheduling", "maybe"}), HasSubstr("auto, on"));
}

TEST(BindWorker, SpeculationIsOffUnlessAskedFor) {
  WorkerFlags worker;
  ASSERT_TRUE(ParseWorker({"m"}, &worker).ok());
  EXPECT_EQ(worker.engine.speculative, SpeculativeFlag::kAuto);
  EXPECT_EQ(worker.engine.num_speculative_tokens, 5);
  EXPECT_EQ(worker.engine.speculative_disable_by_batch_size, 32);
  ASSERT_TRUE(ParseWorker({"m", "--speculative", "ngram", "--num-speculative-tokens", "16",
                           "--speculative-disable-by-batch-size", "8"},
                          &worker)
                  .ok());
  EXPECT_EQ(worker.engine.speculative, SpeculativeFlag::kNgram);
  EXPECT_EQ(worker.engine.num_speculative_tokens, 16);
  EXPECT_EQ(worker.engine.speculative_disable_by_batch_size, 8);
  EXPECT_THAT(WorkerError({"m", "--speculative", "beams"}), HasSubstr("none, ngram, draft"));
  EXPECT_THAT(WorkerError({"m", "--num-speculative-tokens", "17"}), HasSubstr("16"));
  EXPECT_THAT(WorkerError({"m", "--speculative-disable-by-batch-size", "1"}), HasSubstr("2"));
}

TEST(BindWorker, NamesThatNoMetricCanHaveAreRefused) {
  EXPECT_EQ(WorkerError({"/models/\xff", "--served-model-name=tiny"}), "");
  EXPECT_THAT(WorkerError({"/models/\xff"}), HasSubstr("the model's name '\\xff', from its path"));
  EXPECT_THAT(WorkerError({"m", "--served-model-name=\xff"}), HasSubstr("it is not UTF-8"));
}

TEST(BindWorker, ADraftModelForetellsOrSomethingElseDoes) {
  WorkerFlags flags;
  EXPECT_EQ(DecodeError({"--draft-model", "d"}, &flags), "");
  EXPECT_EQ(flags.draft.model, "d");
  EXPECT_FALSE(flags.draft.kv_cache_tokens.has_value());
  EXPECT_EQ(DecodeError({"--draft-model=d", "--speculative=draft", "--draft-kv-cache-tokens=640"},
                        &flags),
            "");
  EXPECT_EQ(flags.draft.kv_cache_tokens, 640);
  EXPECT_EQ(DecodeError({"--draft-model=", "--speculative=none"}, &flags), "")
      << "no model is named";
  for (const char* word : {"none", "ngram"}) {
    WorkerFlags other;
    EXPECT_THAT(DecodeError({"--draft-model=d", std::string("--speculative=") + word}, &other),
                AllOf(HasSubstr("--draft-model with --speculative " + std::string(word)),
                      HasSubstr("Try: --speculative draft")));
  }
  WorkerFlags device;
  EXPECT_THAT(DecodeError({"--draft-model=d", "--device=cuda"}, &device),
              HasSubstr("--draft-model with --device cuda"));
  WorkerFlags none;
  EXPECT_THAT(DecodeError({"--speculative=draft"}, &none), HasSubstr("without --draft-model"));
  WorkerFlags size;
  EXPECT_THAT(DecodeError({"--draft-kv-cache-tokens=640"}, &size),
              HasSubstr("without --draft-model"));
}

TEST(BindWorker, SettingsOfSpeculationNeedSomeoneWhoForetells) {
  for (const std::string setting :
       {"--num-speculative-tokens=3", "--speculative-disable-by-batch-size=8"}) {
    WorkerFlags nobody;
    EXPECT_THAT(DecodeError({setting}, &nobody),
                AllOf(HasSubstr(setting.substr(0, setting.find('=')) + " without speculation"),
                      HasSubstr("Try: --speculative ngram")));
    WorkerFlags off;
    EXPECT_EQ(DecodeError({setting, "--speculative=none"}, &off), "");
    for (const std::string teller : {"--speculative=ngram", "--draft-model=d"}) {
      WorkerFlags flags;
      EXPECT_EQ(DecodeError({setting, teller}, &flags), "");
    }
  }
  WorkerFlags defaults;
  EXPECT_EQ(DecodeError({"--num-speculative-tokens=5"}, &defaults), "")
      << "as a printed configuration says it";
}

TEST(BindWorker, AModelLengthHasRoomForAPromptAndAnAnswer) {
  WorkerFlags flags;
  EXPECT_THAT(DecodeError({"--max-model-len=1"}, &flags), HasSubstr("--max-model-len is 1"));
  EXPECT_EQ(DecodeError({"--max-model-len=2"}, &flags), "");
  EXPECT_EQ(DecodeError({"--max-model-len=0"}, &flags), "");
}

TEST(BindWorker, SwapSpaceIsASizeOfWorkersThatGenerate) {
  WorkerFlags flags;
  EXPECT_EQ(flags.swap.space, 0);
  EXPECT_EQ(DecodeError({"--swap-space", "4GiB"}, &flags), "");
  EXPECT_EQ(flags.swap.space, int64_t{4} << 30);
  EXPECT_EQ(DecodeError({"--swap-space", "0"}, &flags), "");
  EXPECT_EQ(flags.swap.space, 0);
  EXPECT_THAT(DecodeError({"--swap-space", "-1"}, &flags), HasSubstr("--swap-space"));
}

TEST(BindWorker, JumpForwardIsOnUnlessSwitchedOff) {
  WorkerFlags worker;
  ASSERT_TRUE(ParseWorker({"m"}, &worker).ok());
  EXPECT_TRUE(worker.engine.jump_forward);
  ASSERT_TRUE(ParseWorker({"m", "--no-jump-forward"}, &worker).ok());
  EXPECT_FALSE(worker.engine.jump_forward);
}

TEST(BindWorker, DefaultsAreTheDocumentedOnes) {
  WorkerFlags flags = DefaultDecodeFlags();
  ASSERT_TRUE(ParseWorker({"m"}, &flags).ok());
  EXPECT_EQ(flags.engine.max_num_seqs, 64);
  EXPECT_EQ(flags.engine.max_num_queued_reqs, 256);
  EXPECT_FALSE(flags.engine.kv_cache_memory.has_value());
  EXPECT_EQ(flags.engine.gpu_memory_utilization, 0.9);
  EXPECT_FALSE(flags.engine.kv_cache_tokens.has_value());
  EXPECT_EQ(flags.server.host, "127.0.0.1");
  EXPECT_EQ(ServedModelName(flags), "m");
}

TEST(BindWorker, CacheSizeHasAnAliasAndOneRival) {
  WorkerFlags flags;
  ASSERT_TRUE(ParseWorker({"m", "--max-batched-token-mem", "48"}, &flags).ok());
  EXPECT_EQ(flags.engine.kv_cache_tokens, 48);
  EXPECT_THAT(WorkerError({"m", "--kv-cache-tokens", "48", "--kv-cache-memory", "1GiB"}),
              HasSubstr("exclude each other"));
}

TEST(BindWorker, RefusesWhatTheBuildCannotDo) {
  EXPECT_THAT(WorkerError({"m", "--device", "tpu"}), HasSubstr("cpu, cuda"));
  EXPECT_THAT(WorkerError({"m", "--policy", "lifo"}), HasSubstr("fcfs"));
  EXPECT_THAT(WorkerError({"m", "--dtype", "int3"}), HasSubstr("float16"));
  EXPECT_THAT(WorkerError({"m", "--quantization", "int4"}), HasSubstr("none, fp8"));
  EXPECT_THAT(WorkerError({"m", "--gpu-memory-utilization", "1.5"}), HasSubstr("1.5"));
  EXPECT_THAT(WorkerError({"m", "--swap-space", "4GiB"}), HasSubstr("unknown flag"));
}

TEST(BindWorker, AShareOfAGpusMemoryNeedsAGpu) {
  EXPECT_THAT(WorkerError({"m", "--gpu-memory-utilization", "0.5"}),
              HasSubstr("--gpu-memory-utilization with --device cpu: it is a share of a GPU's"));
  EXPECT_EQ(WorkerError({"m", "--gpu-memory-utilization", "0.5", "--device", "cuda"}), "");
  EXPECT_EQ(WorkerError({"m", "--gpu-memory-utilization", "0.9"}), "") << "it is the default";
}

TEST(BindDecodeWorker, ReadsHowItChangesItsRoleAndRefusesWhatDoesNothing) {
  WorkerFlags flags;
  ASSERT_TRUE(ParseDecode({"--elastic", "--elastic-cool-down", "9s", "--elastic-tpot", "30ms",
                           "--kv-transport", "grpc"},
                          &flags)
                  .ok());
  EXPECT_TRUE(flags.roles.elastic);
  EXPECT_EQ(flags.roles.cool_down, std::chrono::seconds(9));
  EXPECT_EQ(flags.roles.step_target, std::chrono::milliseconds(30));
  const auto error = [&](std::vector<std::string> arguments) {
    WorkerFlags others;
    return DecodeError(std::move(arguments), &others);
  };
  EXPECT_THAT(error({"--elastic-cool-down", "9s"}), HasSubstr("without --elastic"));
  EXPECT_THAT(error({"--elastic-tpot", "9ms"}), HasSubstr("without --elastic"));
  EXPECT_THAT(error({"--elastic", "--kv-transport", "nccl"}), HasSubstr("--kv-transport nccl"));
  EXPECT_THAT(WorkerError({"m", "--elastic"}), HasSubstr("unknown flag")) << "prefill workers";
}

TEST(BindWorker, ListensBeyondLoopbackOnlyWithTlsOrInsecure) {
  WorkerFlags flags;
  EXPECT_THAT(WorkerError({"m", "--host", "0.0.0.0"}), HasSubstr("--insecure"));
  EXPECT_TRUE(ParseWorker({"m", "--host", "0.0.0.0", "--insecure"}, &flags).ok());
  EXPECT_TRUE(
      ParseWorker({"m", "--host", "0.0.0.0", "--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a"},
                  &flags)
          .ok());
  EXPECT_TRUE(ParseWorker({"m", "--host", "127.0.0.5"}, &flags).ok());
}

TEST(BindWorker, RefusesTlsByParts) {
  EXPECT_THAT(WorkerError({"m", "--tls-cert", "c"}), HasSubstr("--tls-key"));
  EXPECT_THAT(WorkerError({"m", "--tls-cert", "c", "--tls-key", "k"}), HasSubstr("--tls-ca"));
  EXPECT_THAT(WorkerError({"m", "--tls-ca", "a"}), HasSubstr("--tls-cert"));
}

TEST(BindWorker, FailpointsAreHiddenButThere) {
  WorkerFlags flags;
  FlagSet set("baton-decode", "decode", "");
  BindWorker(&set, &flags);
  EXPECT_THAT(set.Help(true), Not(HasSubstr("failpoint")));
  ASSERT_TRUE(set.Parse({"m", "--enable-failpoints"}, {}).ok());
  EXPECT_TRUE(flags.server.enable_failpoints);
}

}  // namespace
}  // namespace baton
