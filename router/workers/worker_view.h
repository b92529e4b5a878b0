#pragma once

#include <cstdint>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "baton/worker/v1/decode.grpc.pb.h"
#include "baton/worker/v1/prefill.grpc.pb.h"
#include "baton/worker/v1/status.grpc.pb.h"
#include "common/base/clock.h"
#include "common/base/kv_shape.h"

namespace baton {

enum class WorkerKind { kPrefill, kDecode };
inline std::string_view WorkerKindName(WorkerKind kind) {
  return kind == WorkerKind::kPrefill ? "prefill" : "decode";
}

// Names one process of a worker. After a restart at the same address it is another one.
struct WorkerKey {
  std::string address;
  uint64_t incarnation = 0;
  friend bool operator==(const WorkerKey&, const WorkerKey&) = default;
  friend auto operator<=>(const WorkerKey&, const WorkerKey&) = default;
};

// The one channel to an address.
struct WorkerLink {
  std::string address;
  WorkerKind kind = WorkerKind::kDecode;
  std::unique_ptr<worker::v1::DecodeService::Stub> decode;
  std::unique_ptr<worker::v1::PrefillService::Stub> prefill;
  std::unique_ptr<worker::v1::StatusService::Stub> status;
};

// What a worker says about itself once, when its Watch begins.
struct WorkerFacts {
  uint64_t incarnation = 0;
  std::set<WorkerKind> kinds;  // what it serves
  std::string fingerprint;
  std::string text_fingerprint;  // "" from a worker that does not tell
  KvShape layout;
  std::string numerics;
  std::string compute_dtype;
  std::string push_address;
  int32_t protocol_major = 0;
  int32_t max_model_len = 0;
  std::vector<std::string> kv_transports;  // beside messages: "nccl", "cuda_ipc"
};

// What is known of a worker at one moment, for a placement decision: its last status and what this
// router did since.
struct WorkerView {
  std::shared_ptr<WorkerLink> link;
  WorkerFacts facts;
  int32_t places_free = 0;    // prompts that would start at once, own placements taken off
  int64_t queued_tokens = 0;  // prompt tokens before a new one, own placements added
  int32_t blocks_total = 0;
  int64_t blocks_expected = 0;       // in use at the peak of what runs, own placements added
  base::Instant full_until{};        // answered FULL lately
  std::vector<uint64_t> warm_pairs;  // of a prefill worker: decode workers it has a pair with

  WorkerKey key() const { return {link->address, facts.incarnation}; }
};

}  // namespace baton
