#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/graph/step_inputs.h"

struct CUgraphExec_st;

namespace baton::kernels::cuda {

// What is equal for two steps that launch the same kernels on the same memory.
struct GraphKey {
  uint64_t program = 0;
  int64_t rows = 0;
  int64_t samples = 0;
  std::vector<StepSizes::Grid> grids;
  const void* arena = nullptr;

  friend bool operator==(const GraphKey&, const GraphKey&) = default;
  friend auto operator<=>(const GraphKey&, const GraphKey&) = default;
};

// Steps captured as CUDA graphs. The first run of a key is an ordinary one, in which libraries load
// what they need; the second is captured as a graph; from then on one launch repeats it.
class GraphCache final {
 public:
  explicit GraphCache(StreamHandle stream) : stream_(stream) {}
  ~GraphCache();
  GraphCache(const GraphCache&) = delete;
  GraphCache& operator=(const GraphCache&) = delete;

  // Whether all ranks of the group captured a step, asked of each with what it found itself. An
  // error is one of the group.
  using AllCaptured = absl::FunctionRef<absl::StatusOr<bool>(bool captured)>;

  // Runs what `operations` queues on the stream, and returns its error if it has one. A step that
  // not all ranks could capture runs as it is on all of them: NCCL allows no sum of which one rank
  // captured its part and another did not. So ranks run the same keys in the same order.
  absl::Status Run(const GraphKey& key, absl::FunctionRef<absl::Status()> operations,
                   AllCaptured all_captured);
  // Forgets all graphs, because memory that they name has moved.
  void Clear();
  size_t captured() const { return captured_; }
  // Whether what is queued now is captured, and not run.
  bool capturing() const { return capturing_; }

 private:
  struct Entry {
    bool plain = false;  // capture failed, on this rank or on another
    CUgraphExec_st* graph = nullptr;
    uint64_t last_use = 0;
  };
  absl::Status Capture(Entry& entry, absl::FunctionRef<absl::Status()> operations);
  // Captures a step, or decides with the other ranks that it is plain. An error is one of the
  // group.
  absl::Status CaptureOnAll(const GraphKey& key, Entry& entry,
                            absl::FunctionRef<absl::Status()> operations, AllCaptured all_captured);
  void DropOldest();

  const StreamHandle stream_;
  std::map<GraphKey, Entry> entries_;
  uint64_t uses_ = 0;
  size_t captured_ = 0;
  bool capturing_ = false;
};

}  // namespace baton::kernels::cuda
