// What a worker says about itself, as the router takes it in.
#include <string>

#include "baton/worker/v1/status.pb.h"
#include "common/rpc/generation.h"
#include "router/workers/worker_watch.h"
#include "tests/fuzz/fuzz_target.h"
#include "tests/fuzz/wire.h"

namespace baton::fuzz {
namespace {

void CheckFacts(const worker_pb::WorkerIdentity& identity) {
  const WorkerFacts facts = FactsFromProto(identity);
  BATON_CHECK(facts.kinds.size() <= 2);
  worker_pb::KvLayout layout;
  KvShapeToProto(facts.layout, &layout);
  BATON_CHECK(KvShapeFromProto(layout) == facts.layout);
  BATON_CHECK(!facts.layout.Describe().empty());
  const KvShape own = {
      .dtype = "float32", .block_size = 16, .layers = 2, .kv_heads = 2, .head_dim = 64};
  if (CanHandOver(facts.layout, own) && facts.layout.tensor_parallel != own.tensor_parallel) {
    BATON_CHECK(facts.layout.heads_per_rank() <= own.kv_heads);
    for (int32_t head = 0; head < own.kv_heads; ++head) {
      const int32_t rank = facts.layout.rank_of(head);
      BATON_CHECK(0 <= rank && rank < facts.layout.tensor_parallel) << rank;
    }
  }
}

}  // namespace

FUZZ_TARGET(worker_status) {
  worker_pb::WatchResponse message;
  if (!message.ParseFromArray(input.data(), static_cast<int>(input.size()))) return;
  CheckFacts(message.identity());
}

}  // namespace baton::fuzz
