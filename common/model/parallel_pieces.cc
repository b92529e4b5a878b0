#include "common/model/parallel_pieces.h"

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

namespace baton {
namespace {

constexpr size_t kMaxThreads = 8;

}  // namespace

void ForEachPiece(size_t count, absl::FunctionRef<void(size_t)> work) {
  std::atomic<size_t> next{0};
  const auto take = [&] {
    for (size_t piece = next++; piece < count; piece = next++) work(piece);
  };
  const size_t cores = std::max<size_t>(1, std::thread::hardware_concurrency());
  std::vector<std::thread> helpers;
  for (size_t i = 1; i < std::min({cores, count, kMaxThreads}); ++i) helpers.emplace_back(take);
  take();
  for (std::thread& helper : helpers) helper.join();
}

}  // namespace baton
