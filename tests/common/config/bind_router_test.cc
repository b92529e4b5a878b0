#include <fstream>

#include "common/config/bind.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/common/config/bind_fixture.h"
#include "tests/fakes/scratch_folder.h"

namespace baton {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

TEST(BindRouter, OptionalClientCertificatesNeedTls) {
  RouterFlags flags;
  const std::vector<std::string> plain = {"m", "--decode-workers", "d:1", "--tls-client-certs",
                                          "optional"};
  EXPECT_THAT(std::string(ParseRouter(plain, &flags).message()), HasSubstr("without TLS"));
  std::vector<std::string> with_tls = plain;
  with_tls.insert(with_tls.end(), {"--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a"});
  EXPECT_TRUE(ParseRouter(with_tls, &flags).ok());
}

TEST(BindClientTls, TakesTheAuthorityAloneButNoHalfCertificate) {
  const auto parse = [](const std::vector<std::string>& arguments) {
    TlsFlags tls;
    FlagSet set("baton probe", "probe", "");
    BindClientTls(&set, &tls);
    return set.Parse(arguments, {}).ok();
  };
  EXPECT_TRUE(parse({}));
  EXPECT_TRUE(parse({"--tls-ca", "a"}));
  EXPECT_TRUE(parse({"--tls-cert", "c", "--tls-key", "k", "--tls-ca", "a"}));
  EXPECT_FALSE(parse({"--tls-cert", "c", "--tls-ca", "a"}));
  EXPECT_FALSE(parse({"--tls-key", "k", "--tls-ca", "a"}));
  EXPECT_FALSE(parse({"--tls-cert", "c", "--tls-key", "k"}));
}

TEST(BindRouter, ReadsItsFlags) {
  RouterFlags flags;
  const absl::Status status = ParseRouter({"models/demo/",
                                           "--prefill-workers",
                                           "a:1",
                                           "--decode-workers",
                                           "b:2,c:3",
                                           "--seed",
                                           "18446744073709551615",
                                           "--max-input-length",
                                           "10",
                                           "--max-output-length",
                                           "20",
                                           "--ignore-eos",
                                           "refuse",
                                           "--eos-log",
                                           "off",
                                           "--eos-log-max-size",
                                           "64MiB",
                                           "--eos-log-files",
                                           "3",
                                           "--eos-log-sample",
                                           "0.25",
                                           "--max-inflight-bytes",
                                           "2MiB",
                                           "--client-buffer",
                                           "1MiB",
                                           "--local-prefill-below",
                                           "8",
                                           "--drain-timeout",
                                           "5",
                                           "--max-connection-age",
                                           "1h",
                                           "--max-connection-age-grace",
                                           "1200"},
                                          &flags);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_THAT(flags.prefill_workers, ElementsAre("a:1"));
  EXPECT_THAT(flags.decode_workers, ElementsAre("b:2", "c:3"));
  EXPECT_EQ(flags.seed, UINT64_MAX);
  EXPECT_EQ(flags.max_input_length, 10);
  EXPECT_EQ(flags.max_output_length, 20);
  EXPECT_EQ(flags.ignore_eos, IgnoreEosFlag::kRefuse);
  EXPECT_EQ(flags.eos_log, "");
  EXPECT_EQ(flags.eos_log_max_size, 64 << 20);
  EXPECT_EQ(flags.eos_log_files, 3);
  EXPECT_EQ(flags.eos_log_sample, 0.25);
  EXPECT_EQ(flags.max_inflight_bytes, 2 << 20);
  EXPECT_EQ(flags.client_buffer, 1 << 20);
  EXPECT_EQ(flags.local_prefill_below, 8);
  EXPECT_EQ(flags.server.drain_timeout, std::chrono::seconds(5));
  EXPECT_EQ(flags.server.max_connection_age, std::chrono::hours(1));
  EXPECT_EQ(flags.server.max_connection_age_grace, std::chrono::seconds(1200));
  EXPECT_EQ(ServedModelName(flags), "demo");
}

TEST(BindRouter, AGgufFileIsServedByItsNameWithoutTheEnding) {
  RouterFlags flags;
  for (const auto& [model, name] : {std::pair("/models/tiny-Q4_K_M.gguf", "tiny-Q4_K_M"),
                                    std::pair("/models/Tiny-1.1B", "Tiny-1.1B"),
                                    std::pair("/models/Tiny-1.1B/", "Tiny-1.1B")}) {
    flags.model_dir = model;
    EXPECT_EQ(ServedModelName(flags), name);
  }
}

TEST(BindRouter, NamesThatJsonOrATerminalCannotTakeAreRefused) {
  const auto error = [](std::vector<std::string> arguments) {
    arguments.push_back("--decode-workers=b:2");
    RouterFlags flags;
    return std::string(ParseRouter(arguments, &flags).message());
  };
  EXPECT_EQ(error({"/models/Tiny \xc3\xa9"}), "");
  EXPECT_EQ(error({"/models/\xff", "--served-model-name=tiny"}), "");
  EXPECT_EQ(error({"/models/a\xff"}),
            "the model's name 'a\\xff', from its path: it is not UTF-8, which answers and metrics "
            "are. Try: --served-model-name NAME");
  EXPECT_THAT(error({"/models/a\xff.gguf"}), HasSubstr("the model's name 'a\\xff', from its path"));
  EXPECT_THAT(error({"m", "--served-model-name=a\xed\xa0\x80"}),
              HasSubstr("--served-model-name 'a\\xed\\xa0\\x80': it is not UTF-8"));
  for (const std::string name : {"a\nb", "a\x1b[2J", "a\x7f", "a\xc2\x85"}) {
    EXPECT_THAT(error({"m", "--served-model-name=" + name}),
                HasSubstr("it has control characters; expected text on one line"));
  }
}

TEST(BindRouter, LocalPrefillsAreByLengthOrByCost) {
  RouterFlags flags;
  EXPECT_EQ(flags.local_prefill_below, 0);
  ASSERT_TRUE(
      ParseRouter({"m", "--decode-workers", "b:2", "--local-prefill-below", "auto"}, &flags).ok());
  EXPECT_EQ(flags.local_prefill_below, std::nullopt);
  ASSERT_TRUE(
      ParseRouter({"m", "--decode-workers", "b:2", "--local-prefill-below", "7"}, &flags).ok());
  EXPECT_EQ(flags.local_prefill_below, 7);
  for (const char* wrong : {"-1", "automatic", ""}) {
    const absl::Status status =
        ParseRouter({"m", "--decode-workers", "b:2", "--local-prefill-below", wrong}, &flags);
    EXPECT_THAT(std::string(status.message()), HasSubstr("expected 'auto' or an integer from 0"));
  }
}

TEST(BindRouter, AnEosLogIsNotRotatedByTheRow) {
  for (const char* size : {"0", "1MiB", "1GiB"}) {
    RouterFlags flags;
    EXPECT_TRUE(
        ParseRouter({"m", "--decode-workers", "b:2", "--eos-log-max-size", size}, &flags).ok())
        << size;
  }
  RouterFlags flags;
  const std::vector<std::vector<std::string>> wrong = {{"--eos-log-max-size", "1023KiB"},
                                                       {"--eos-log-max-size", "-1"},
                                                       {"--eos-log-files", "0"},
                                                       {"--eos-log-sample", "1.5"},
                                                       {"--eos-log-sample", "nan"}};
  for (const std::vector<std::string>& pair : wrong) {
    EXPECT_FALSE(ParseRouter({"m", "--decode-workers", "b:2", pair[0], pair[1]}, &flags).ok())
        << pair[0] << " " << pair[1];
  }
}

TEST(BindRouter, AnEosLogIsNotNamedLikeAPartOfOne) {
  const auto parse = [](const char* name) {
    RouterFlags flags;
    return ParseRouter({"m", "--decode-workers", "b:2", "--eos-log", name}, &flags);
  };
  for (const char* name : {"off", "eos.jsonl", "1", "d.1/eos", "eos.01", "eos.1.jsonl", ".7"}) {
    EXPECT_TRUE(parse(name).ok()) << name << " " << parse(name);
  }
  for (const char* name : {"eos.1", "eos.jsonl.20", "d/eos.zst", "eos.3.zst", "eos.2026"}) {
    EXPECT_THAT(std::string(parse(name).message()),
                HasSubstr(std::string("--eos-log ") + name + " is the name of a part of a log"));
  }
}

TEST(BindRouter, BelievesNoHeaderAndSharesNoPrefixesUnlessTold) {
  RouterFlags flags;
  ASSERT_TRUE(ParseRouter({"m", "--decode-workers", "b:2"}, &flags).ok());
  EXPECT_FALSE(flags.trust_tenant_header || flags.share_prefix_cache);
  ASSERT_TRUE(
      ParseRouter({"m", "--decode-workers", "b:2", "--trust-tenant-header", "--share-prefix-cache"},
                  &flags)
          .ok());
  EXPECT_TRUE(flags.trust_tenant_header && flags.share_prefix_cache);
}

TEST(BindRouter, ReadsTenantsAndTheirDefaults) {
  RouterFlags flags;
  ASSERT_TRUE(ParseRouter({"m", "--decode-workers", "b:2", "--tenant-max-running=9",
                           "--tenant-max-queued=7", "--tenant", "a.b:weight=2.5,max-running=3",
                           "--tenant=c:max-queued=0"},
                          &flags)
                  .ok());
  EXPECT_EQ(flags.tenant_max_running, 9);
  EXPECT_EQ(flags.tenant_max_queued, 7);
  ASSERT_EQ(flags.tenants.size(), 2u);
  EXPECT_EQ(flags.tenants["a.b"].weight, 2.5);
  EXPECT_EQ(flags.tenants["a.b"].max_running, 3);
  EXPECT_EQ(flags.tenants["a.b"].max_queued, std::nullopt);
  EXPECT_EQ(flags.tenants["c"].max_queued, 0);
}

TEST(BindRouter, TenantsAreSectionsOfTheFile) {
  const ScratchFolder folder;
  const std::string path = folder / "tenants.toml";
  std::ofstream(path) << "[tenant.a.b]\nweight = 2.5\nmax_running = 3\n"
                         "[router]\ntenant-max-queued = 7\n"
                         "tenant = [\"d:weight=4\", \"e:max-queued=5,weight=2\"]\n"
                         "[tenant.d]\nmax-queued = 1\n";
  RouterFlags flags;
  const absl::Status read = ParseRouter({"m", "--decode-workers=b:2", "--config", path}, &flags);
  ASSERT_TRUE(read.ok()) << read;
  ASSERT_EQ(flags.tenants.size(), 3u);
  EXPECT_EQ(flags.tenants["a.b"].weight, 2.5);
  EXPECT_EQ(flags.tenants["a.b"].max_running, 3);
  EXPECT_EQ(flags.tenants["d"].weight, 4);
  EXPECT_EQ(flags.tenants["d"].max_queued, 1);
  EXPECT_EQ(flags.tenants["e"].max_queued, 5);
  EXPECT_EQ(flags.tenant_max_queued, 7);
  WorkerFlags worker;
  std::ofstream(path) << "[tenant.a]\nweight = 2\n";
  EXPECT_TRUE(ParseWorker({"m", "--config", path}, &worker).ok()) << "it is not for workers";
  std::ofstream(path) << "[tenant]\nweight = 2\n";
  EXPECT_THAT(
      std::string(ParseRouter({"m", "--decode-workers=b:2", "--config", path}, &flags).message()),
      HasSubstr("[tenant.NAME]"));
  std::ofstream(path) << "[tenant.a]\nmax-runing = 2\n";
  EXPECT_THAT(
      std::string(ParseRouter({"m", "--decode-workers=b:2", "--config", path}, &flags).message()),
      HasSubstr("max-runing=2"));
  std::ofstream(path) << "[tenant.a]\nweight = 2\n[tenant.b]\nmax-queued = -1\nweight = 0\n";
  EXPECT_THAT(
      std::string(ParseRouter({"m", "--decode-workers=b:2", "--config", path}, &flags).message()),
      AllOf(HasSubstr(path + ":4: [tenant.b]: found '-1'"),
            HasSubstr(path + ":5: [tenant.b]: found '0'"), Not(HasSubstr("[tenant.a]"))));
}

TEST(BindRouter, ATenantsKeyStandsInTheFileOnce) {
  const ScratchFolder folder;
  const auto error = [&](const std::string& text) {
    RouterFlags flags;
    const std::string path = folder.Write("f.toml", text);
    return std::string(
        ParseRouter({"m", "--decode-workers=b:2", "--config", path}, &flags).message());
  };
  const std::string path = folder / "f.toml";
  EXPECT_THAT(error("[tenant.x]\nweight = 2\n[router]\ntenant = \"x:max-queued=1,weight=5\"\n"),
              AllOf(HasSubstr(path + ":2: [tenant.x] weight: it is set twice"),
                    HasSubstr("also as " + path + ":4: tenant.")));
  EXPECT_THAT(error("[router]\ntenant = [\"y:weight=5\", \"x:max-running=5\"]\n"
                    "[tenant.x]\nmax_running = 2\n"),
              HasSubstr("also as " + path + ":2: tenant."));
  EXPECT_THAT(error("[tenant.x]\nmax-queued = 1\nmax_queued = 2\n"),
              HasSubstr(path + ":3: [tenant.x] max_queued: it is set twice"));
  EXPECT_EQ(error("[router]\ntenant = \"xx:weight=5,max-running=1\"\n[tenant.x]\nweight = 2\n"
                  "[tenant.xx]\nmax-queued = 2\n"),
            "");
}

TEST(BindRouter, RefusesWrongTenants) {
  for (const char* wrong : {"a", "a:", "a:weight=0", "a:weight=nan", "a:weight=-1",
                            "a:max-running=-1", "a:max-queued=x", "a:speed=2", "router:weight=1",
                            "a b:weight=1", ":weight=1", "a:weight=1,"}) {
    RouterFlags flags;
    const auto status = ParseRouter({"m", "--decode-workers", "b:2", "--tenant", wrong}, &flags);
    EXPECT_THAT(std::string(status.message()), HasSubstr("--tenant")) << wrong;
  }
}

TEST(BindRouter, TheLogTellsTheLoadAsOftenAsAsked) {
  RouterFlags flags;
  ASSERT_TRUE(ParseRouter({"m", "--decode-workers=b:2"}, &flags).ok());
  EXPECT_EQ(flags.server.log_stats_interval, std::chrono::seconds(10));
  ASSERT_TRUE(ParseRouter({"m", "--decode-workers=b:2", "--log-stats-interval=0"}, &flags).ok());
  EXPECT_EQ(flags.server.log_stats_interval, base::Duration::zero());
  ASSERT_TRUE(
      ParseRouter({"m", "--decode-workers=b:2", "--log-stats-interval=500ms"}, &flags).ok());
  EXPECT_EQ(flags.server.log_stats_interval, std::chrono::milliseconds(500));
  EXPECT_FALSE(ParseRouter({"m", "--decode-workers=b:2", "--log-stats-interval=-1"}, &flags).ok());
}

TEST(BindRouter, DefaultsAreTheDocumentedOnes) {
  RouterFlags flags;
  ASSERT_TRUE(ParseRouter({"m", "--decode-workers", "b:2"}, &flags).ok());
  EXPECT_EQ(flags.max_num_queued_reqs, 1024);
  EXPECT_EQ(flags.ignore_eos, IgnoreEosFlag::kWarn);
  EXPECT_EQ(flags.eos_log, "");
  EXPECT_EQ(flags.max_inflight_bytes, 1 << 30);
  EXPECT_EQ(flags.client_buffer, 4 << 20);
  EXPECT_EQ(flags.server.max_connection_age, base::Duration::zero());
  EXPECT_EQ(flags.server.max_connection_age_grace, std::chrono::seconds(600));
  EXPECT_EQ(ServedModelName(flags), "m");
}

TEST(BindRouter, ListensBeyondLoopbackOnlyWithTlsOrInsecure) {
  RouterFlags flags;
  const std::vector<std::string> open = {"m", "--decode-workers", "b:2", "--host", "0.0.0.0"};
  EXPECT_THAT(std::string(ParseRouter(open, &flags).message()), HasSubstr("--insecure"));
  std::vector<std::string> insecure = open;
  insecure.emplace_back("--insecure");
  EXPECT_TRUE(ParseRouter(insecure, &flags).ok());
}

TEST(BindRouter, TakesWorkersByAddressAndByName) {
  RouterFlags flags;
  ASSERT_TRUE(
      ParseRouter({"m", "--decode-workers", "dns:///decode.ns:5,[::1]:6,10.0.0.1:7"}, &flags).ok());
  EXPECT_THAT(flags.decode_workers, ElementsAre("dns:///decode.ns:5", "[::1]:6", "10.0.0.1:7"));
  for (const char* wrong : {"decode", "decode:", ":5", "decode:0", "decode:70000", "http://a:5"}) {
    const absl::Status status = ParseRouter({"m", "--decode-workers", wrong}, &flags);
    EXPECT_THAT(std::string(status.message()), HasSubstr("host:port")) << wrong;
  }
}

TEST(BindRouter, TracesGoToACollectorOrNowhere) {
  RouterFlags flags;
  const auto parse = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"m", "--decode-workers", "b:2"};
    all.insert(all.end(), more.begin(), more.end());
    return ParseRouter(all, &flags);
  };
  ASSERT_TRUE(parse({}).ok());
  EXPECT_EQ(flags.server.otlp_endpoint, "");
  EXPECT_EQ(flags.trace_sample, 1);
  ASSERT_TRUE(parse({"--otlp-endpoint", "http://collector:4318", "--trace-sample", "0.25"}).ok());
  EXPECT_EQ(flags.server.otlp_endpoint, "http://collector:4318");
  EXPECT_EQ(flags.trace_sample, 0.25);
  ASSERT_TRUE(parse({"--otlp-endpoint=off"}).ok());
  EXPECT_EQ(flags.server.otlp_endpoint, "");
  EXPECT_THAT(std::string(parse({"--otlp-endpoint", "collector:4317"}).message()),
              AllOf(HasSubstr("--otlp-endpoint"), HasSubstr("expected http://")));
  EXPECT_FALSE(parse({"--trace-sample", "1.5"}).ok());
  // Who calls a worker has decided already.
  WorkerFlags worker;
  EXPECT_TRUE(ParseWorker({"m", "--otlp-endpoint", "https://collector/x"}, &worker).ok());
  EXPECT_EQ(worker.server.otlp_endpoint, "https://collector/x");
  EXPECT_FALSE(ParseWorker({"m", "--trace-sample", "1"}, &worker).ok());
}

TEST(BindRouter, TakesThePortOfHttpOrNone) {
  RouterFlags flags;
  const auto parse = [&](const std::vector<std::string>& more) {
    std::vector<std::string> all = {"m", "--decode-workers", "b:2"};
    all.insert(all.end(), more.begin(), more.end());
    return ParseRouter(all, &flags);
  };
  ASSERT_TRUE(parse({}).ok());
  EXPECT_EQ(flags.http.port, std::nullopt);
  ASSERT_TRUE(parse({"--http-port", "0", "--api-keys", "k", "--http-max-body", "1MiB",
                     "--http-allow-origins", "https://a,http://b:1", "--http-max-connections=99"})
                  .ok());
  EXPECT_EQ(flags.http.port, 0);
  EXPECT_EQ(flags.http.max_body, 1 << 20);
  EXPECT_EQ(flags.http.max_connections, 99);
  EXPECT_THAT(flags.http.allow_origins, ElementsAre("https://a", "http://b:1"));
  EXPECT_EQ(flags.api_keys, "k");
  flags = {};
  ASSERT_TRUE(parse({"--http-port=off"}).ok());
  EXPECT_EQ(flags.http.port, std::nullopt);
  EXPECT_THAT(std::string(parse({"--http-port=70000"}).message()), HasSubstr("65535, or off"));
  for (const char* wrong : {"chat.example.org", "https://a/b", "https://"}) {
    const absl::Status status = parse({"--http-allow-origins", wrong});
    EXPECT_THAT(std::string(status.message()), HasSubstr("without a path")) << wrong;
  }
}

TEST(BindRouter, WhatIsAboutTheHttpPortNeedsOne) {
  const auto parse = [](const std::string& given, const std::string& port) {
    RouterFlags flags;
    return ParseRouter({"m", "--decode-workers", "b:2", given, "--http-port=" + port}, &flags);
  };
  for (const char* given :
       {"--http-allow-origins=https://a", "--http-max-connections=99", "--http-max-body=1MiB"}) {
    const std::string name(given, std::string(given).find('='));
    EXPECT_THAT(std::string(parse(given, "off").message()),
                HasSubstr(name + " without --http-port"));
    EXPECT_TRUE(parse(given, "0").ok()) << given;
  }
}

TEST(BindRouter, NeedsADecodeWorker) {
  RouterFlags flags;
  EXPECT_THAT(std::string(ParseRouter({"m"}, &flags).message()), HasSubstr("--decode-workers"));
}

}  // namespace
}  // namespace baton
