#include "kernels/cuda/graph/graph.h"

#include <cuda_runtime_api.h>

#include <algorithm>

#include "common/base/status.h"
#include "spdlog/spdlog.h"

namespace baton::kernels::cuda {
namespace {

// A graph of a large model takes some MiB. A worker sees far fewer keys in its decode steps.
constexpr size_t kMaxGraphs = 256;

}  // namespace

GraphCache::~GraphCache() { Clear(); }

void GraphCache::Clear() {
  for (auto& [key, entry] : entries_) {
    if (entry.graph != nullptr) cudaGraphExecDestroy(entry.graph);
  }
  entries_.clear();
  captured_ = 0;
}

void GraphCache::DropOldest() {
  const auto oldest = std::min_element(
      entries_.begin(), entries_.end(),
      [](const auto& a, const auto& b) { return a.second.last_use < b.second.last_use; });
  if (oldest->second.graph != nullptr) {
    cudaGraphExecDestroy(oldest->second.graph);
    --captured_;
  }
  entries_.erase(oldest);
}

absl::Status GraphCache::Capture(Entry& entry, absl::FunctionRef<absl::Status()> operations) {
  cudaGraph_t graph = nullptr;
  // In this mode other threads of the process may allocate and copy meanwhile.
  cudaError_t error = cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal);
  if (error != cudaSuccess) return ToStatus(error, "capturing a step");
  capturing_ = true;
  const absl::Status queued = operations();
  capturing_ = false;
  error = cudaStreamEndCapture(stream_, &graph);
  // A graph that lacks an operation must never run.
  if (error == cudaSuccess && queued.ok()) error = cudaGraphInstantiate(&entry.graph, graph, 0);
  if (graph != nullptr) cudaGraphDestroy(graph);
  BATON_RETURN_IF_ERROR(queued);
  return error == cudaSuccess ? absl::OkStatus() : ToStatus(error, "capturing a step");
}

absl::Status GraphCache::CaptureOnAll(const GraphKey& key, Entry& entry,
                                      absl::FunctionRef<absl::Status()> operations,
                                      AllCaptured all_captured) {
  const absl::Status captured = Capture(entry, operations);
  BATON_ASSIGN_OR_RETURN(const bool on_all, all_captured(captured.ok()));
  if (on_all) {
    ++captured_;
    return absl::OkStatus();
  }
  // Whether the device is well shows in the ordinary run.
  cudaGetLastError();
  if (captured.ok()) cudaGraphExecDestroy(entry.graph);
  entry.graph = nullptr;
  entry.plain = true;
  spdlog::warn("a step of {} rows is not captured as a graph: {}", key.rows,
               captured.ok() ? "another rank could not" : captured.ToString());
  return absl::OkStatus();
}

absl::Status GraphCache::Run(const GraphKey& key, absl::FunctionRef<absl::Status()> operations,
                             AllCaptured all_captured) {
  auto found = entries_.find(key);
  if (found == entries_.end()) {
    if (entries_.size() >= kMaxGraphs) DropOldest();
    entries_[key].last_use = ++uses_;
    return operations();
  }
  Entry& entry = found->second;
  entry.last_use = ++uses_;
  if (entry.graph == nullptr && !entry.plain) {
    BATON_RETURN_IF_ERROR(CaptureOnAll(key, entry, operations, all_captured));
  }
  if (entry.plain) return operations();
  return ToStatus(cudaGraphLaunch(entry.graph, stream_), "launching a step");
}

}  // namespace baton::kernels::cuda
