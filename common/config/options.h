#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "common/base/clock.h"
#include "common/base/log.h"
#include "common/base/policy_settings.h"

// What the command line, the environment and the configuration file can say, as plain data with its
// defaults. bind.h fills them; the services read them.
namespace baton {

// The three files, in PEM, that mutual TLS needs: a server has all of them or none, a client may
// have the authority alone.
struct TlsFlags {
  std::string cert;
  std::string key;
  std::string ca;

  bool enabled() const { return !cert.empty(); }
};

// What the router and both workers take.
struct ServerFlags {
  std::string host = "127.0.0.1";
  int32_t port = 50051;       // 0 = any free port
  int32_t admin_port = 8080;  // metrics and probes over HTTP; 0 = any free port
  std::string advertise;      // host:port that others reach the gRPC port at; "" = where it listens
  TlsFlags tls;
  bool insecure = false;  // without TLS, a worker may bind more than loopback
  base::LogFormat log_format = base::LogFormat::kText;
  std::string log_level = "info";
  base::Duration log_stats_interval = std::chrono::seconds(10);  // 0 = no lines about the load
  base::Duration drain_timeout = std::chrono::seconds(30);
  base::Duration max_connection_age{};  // 0 = as long as the client likes
  // No shorter than the longest request, which else would break.
  base::Duration max_connection_age_grace = std::chrono::seconds(600);
  bool enable_failpoints = false;  // honour BATON_FAILPOINT; for tests
  std::string otlp_endpoint;       // URL of a collector of traces; "" = no traces
};

enum class DtypeFlag { kAuto, kFloat32, kBfloat16, kFloat16 };
enum class KvDtypeFlag { kAuto, kFloat32, kBfloat16, kFloat16, kInt8, kFp8 };
enum class DeviceFlag { kCpu, kCuda };
enum class IsaFlag { kAuto, kAmx, kAvx512Bf16, kAvx512, kAvx2 };
enum class QuantizationFlag { kNone, kFp8 };
enum class PolicyFlag { kFcfs, kPastFuture, kRemaining, kBoost };
// By what a router chooses workers: router/router_options.h.
enum class RoutingFlag { kLoad, kPrefix, kRemaining, kScore };
enum class AsyncSchedulingFlag { kAuto, kOn, kOff };
// Where proposals of what comes next are from: docs/speculation.md.
// kAuto: from a draft model where one is named, else there are none.
enum class SpeculativeFlag { kAuto, kNone, kNgram, kDraft };
enum class KvTransportFlag { kAuto, kGrpc, kNccl, kCudaIpc };
// What to do with an answer that goes round in circles: common/sample/runaway.h.
enum class RunawayFlag { kOff, kWarn, kEnd };
// What to do with requests that ask to ignore EOS. kWarn counts and logs them.
enum class IgnoreEosFlag { kAllow, kWarn, kRefuse };

// The words that a flag takes, and what each of them means.
template <typename T>
using Choices = std::vector<std::pair<std::string, T>>;

// The words of the types above, as they are written on the command line. The argument only names
// the type.
Choices<DtypeFlag> ChoicesOf(DtypeFlag);
Choices<KvDtypeFlag> ChoicesOf(KvDtypeFlag);
// Those in which a CPU computes and keeps its cache: without float16.
Choices<DtypeFlag> CpuChoicesOf(DtypeFlag);
Choices<KvDtypeFlag> CpuChoicesOf(KvDtypeFlag);
Choices<DeviceFlag> ChoicesOf(DeviceFlag);
Choices<IsaFlag> ChoicesOf(IsaFlag);
Choices<QuantizationFlag> ChoicesOf(QuantizationFlag);
Choices<PolicyFlag> ChoicesOf(PolicyFlag);
Choices<RoutingFlag> ChoicesOf(RoutingFlag);
Choices<AsyncSchedulingFlag> ChoicesOf(AsyncSchedulingFlag);
Choices<SpeculativeFlag> ChoicesOf(SpeculativeFlag);
Choices<KvTransportFlag> ChoicesOf(KvTransportFlag);
Choices<RunawayFlag> ChoicesOf(RunawayFlag);
Choices<IgnoreEosFlag> ChoicesOf(IgnoreEosFlag);

// The word of one value: WordOf(DeviceFlag::kCuda) is "cuda".
template <typename T>
std::string WordOf(T wanted) {
  for (const auto& [word, value] : ChoicesOf(wanted)) {
    if (value == wanted) return word;
  }
  return "";
}

// What prefill and decode workers take for their engine.
struct EngineFlags {
  int32_t max_model_len = 0;               // tokens of prompt and output; 0 = the model's own
  int32_t max_num_seqs = 64;               // sequences in one step
  int32_t max_prefill_tokens = 2048;       // prompt tokens in one step
  int32_t max_num_batched_tokens = 2048;   // tokens in one step
  std::optional<int64_t> kv_cache_tokens;  // when set, instead of kv_cache_memory
  std::optional<int64_t> kv_cache_memory;  // bytes; 512 MiB on a CPU if neither is set
  double gpu_memory_utilization = 0.9;     // on a GPU if neither is set
  int32_t block_size = 16;                 // tokens
  bool enable_prefix_caching = true;
  base::Duration prefill_batch_wait{};
  DtypeFlag dtype = DtypeFlag::kAuto;         // float32 for fp32 checkpoints, else bfloat16
  KvDtypeFlag kv_dtype = KvDtypeFlag::kAuto;  // the compute dtype
  DeviceFlag device = DeviceFlag::kCpu;
  IsaFlag isa = IsaFlag::kAuto;
  int32_t threads = 0;               // of all ranks; 0 = a thread per physical core
  int32_t tensor_parallel_size = 1;  // ranks that a model is divided among
  QuantizationFlag quantization = QuantizationFlag::kNone;  // of the projections
  std::string load_cache;  // directory of packed checkpoints; "" = off
  std::string probe;       // a probe file; "" = none
  PolicyFlag policy = PolicyFlag::kFcfs;
  PolicySettings policy_settings;
  AsyncSchedulingFlag async_scheduling = AsyncSchedulingFlag::kAuto;
  int32_t max_num_queued_reqs = 256;  // reservation line and local queue
  SpeculativeFlag speculative = SpeculativeFlag::kAuto;
  int32_t num_speculative_tokens = 5;  // proposed for one sequence in one step
  int32_t speculative_disable_by_batch_size = 32;
  bool jump_forward = true;
  RunawayFlag runaway = RunawayFlag::kWarn;
};

// Whether the next step is planned while one computes. With kAuto it is so on a GPU.
bool SchedulesAsync(const EngineFlags& flags);

// The small model that foretells what comes next, of workers that generate.
struct DraftFlags {
  std::string model;                       // a directory; "" = none
  std::optional<int64_t> kv_cache_tokens;  // as many as the model's own cache has, if not set
};

// What workers that generate do about the KV of answers that give way.
struct SwapFlags {
  int64_t space = 0;  // bytes of the host's memory; 0 = all of it is computed again
};

// How KV caches travel between workers.
struct HandoffFlags {
  KvTransportFlag transport = KvTransportFlag::kAuto;
  bool checksum = true;      // of KV that moves between devices; gRPC always has one
  std::string nccl_library;  // a file; "" = libnccl.so.2 where the loader finds it
};

// How a worker foresees the ends of answers.
struct PredictionFlags {
  std::string predictor = "auto";  // auto, off, or a file
  std::string state;               // file for what is learnt of lengths; "" = not kept
};

// Whether a worker serves both roles, and how it changes from one to the other.
struct RoleFlags {
  bool elastic = false;
  base::Duration cool_down = std::chrono::seconds(5);  // between two changes of one worker
  base::Duration step_target{};  // what a step of answers may take; 0 = no target
};

struct WorkerFlags {
  std::string model_dir;
  std::string served_model_name;  // label of the metrics; see ServedModelName
  ServerFlags server;
  EngineFlags engine;
  PredictionFlags prediction;
  HandoffFlags handoff;
  RoleFlags roles;   // of a decode worker
  DraftFlags draft;  // likewise
  SwapFlags swap;    // likewise
};

// What the configuration says of one tenant.
struct TenantFlags {
  double weight = 1;
  std::optional<int32_t> max_running;  // else tenant_max_running
  std::optional<int32_t> max_queued;   // else tenant_max_queued
};

// The OpenAI API of a router.
struct HttpFlags {
  std::optional<int32_t> port;  // empty = off
  std::vector<std::string> allow_origins;
  int32_t max_connections = 16'384;
  int64_t max_body = int64_t{16} << 20;  // bytes
};

struct RouterFlags {
  std::string model_dir;
  ServerFlags server;
  HttpFlags http;
  std::vector<std::string> prefill_workers;  // host:port or dns name:port; empty = decode prefills
  std::vector<std::string> decode_workers;
  std::string served_model_name;  // see ServedModelName
  std::optional<uint64_t> seed;   // of the generator that draws missing request seeds
  int32_t max_input_length = 0;   // tokens; 0 = what the workers take
  int32_t max_output_length = 0;  // tokens; 0 = what the workers take
  int32_t max_num_queued_reqs = 1024;
  IgnoreEosFlag ignore_eos = IgnoreEosFlag::kWarn;
  std::string eos_log;                          // file; "" = off
  int64_t eos_log_max_size = int64_t{1} << 30;  // bytes before FILE becomes FILE.N; 0 = never
  int32_t eos_log_files = 150;                  // of these beside FILE, the oldest removed
  double eos_log_sample = 1;                    // share of requests in the log
  bool eos_log_optional = false;  // a file that cannot be written is a warning; `serve` gives it
  // For a worker to listen, until the log complains; `serve`, which starts the workers, gives more.
  base::Duration worker_start_timeout = std::chrono::seconds(5);
  RoutingFlag routing = RoutingFlag::kLoad;
  // Uncached prompt tokens that decode workers prefill themselves; empty: by estimated cost.
  std::optional<int32_t> local_prefill_below = 0;
  int64_t max_inflight_bytes = int64_t{1} << 30;  // of messages and prompts of all requests
  int64_t client_buffer = int64_t{4} << 20;       // bytes held for a slow client
  std::map<std::string, TenantFlags> tenants;
  int32_t tenant_max_running = 0;      // of each tenant; 0 = no bound
  int32_t tenant_max_queued = 0;       // likewise
  bool trust_tenant_header = false;    // the metadata baton-tenant names a request's tenant
  std::string api_keys;                // file of lines NAME:KEY; "" = callers need no key
  bool share_prefix_cache = false;     // tenants find each other's prefixes
  bool client_certs_optional = false;  // with TLS, clients need not show a certificate
  double trace_sample = 1;  // share of requests that are traced, of those whose caller says nothing
};

// The address at which others are told to find the gRPC port: `--advertise`, or else `listening`.
const std::string& Advertised(const ServerFlags& flags, const std::string& listening);
// The name that requests use: `--served-model-name`, or else the last part of the model directory.
std::string ServedModelName(const std::string& given, const std::string& model_dir);
std::string ServedModelName(const RouterFlags& flags);
std::string ServedModelName(const WorkerFlags& flags);

}  // namespace baton
