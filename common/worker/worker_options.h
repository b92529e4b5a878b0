#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "common/rpc/tls.h"

namespace baton {

// What the command line of `baton-prefill` and `baton-decode` says. 0 and "auto" mean: chosen at
// start from the model and the machine, and logged.
struct WorkerOptions {
  std::string model_dir;

  // Engine.
  int32_t max_model_len = 0;  // 0 = the model's
  int32_t max_num_seqs = 64;
  int32_t max_prefill_tokens = 2048;
  int32_t max_num_batched_tokens = 2048;
  int64_t kv_cache_tokens = 0;        // exclusive with kv_cache_memory_bytes
  int64_t kv_cache_memory_bytes = 0;  // 0 and kv_cache_tokens 0 = 512 MiB
  int32_t block_size = 16;
  bool enable_prefix_caching = true;
  std::chrono::milliseconds prefill_batch_wait{0};
  std::string policy = "fcfs";
  int32_t max_num_queued_reqs = 256;
  std::string dtype = "auto";     // auto | float32 | bfloat16
  std::string kv_dtype = "auto";  // auto | float32 | bfloat16
  std::string device = "cpu";
  std::string isa = "auto";  // auto | avx512 | avx2
  int32_t threads = 0;

  // Network.
  std::string host = "127.0.0.1";
  int32_t port = 0;        // 0 = any free one
  int32_t admin_port = 0;  // 0 = any free one
  std::string advertise;   // decode: host:port for pushes; empty = as the router dialled
  TlsOptions tls;
  bool insecure = false;  // allow another interface than loopback without TLS

  // Life.
  std::chrono::milliseconds drain_timeout{30'000};
  bool enable_failpoints = false;  // honour BATON_FAILPOINT

  // Protocol deadlines, not on the command line.
  std::chrono::milliseconds piece_timeout{10'000};        // one piece unaccepted fails the push
  std::chrono::milliseconds progress_interval{5'000};     // sign of life of a push
  std::chrono::milliseconds reservation_silence{30'000};  // push without a sign of life: EXPIRED
  std::chrono::milliseconds stall_timeout{30'000};        // engine without a finished op: exit
  size_t stream_buffer_bytes = 4 << 20;  // unsent responses of one stream before it is ended
};

}  // namespace baton
