#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "common/base/check.h"
#include "kernels/cuda/cta/cta.h"

namespace baton::kernels::cuda {

// Combines the values of lanes as DeviceWarp and DeviceCta do, and is what the first lane gets.
template <typename T, typename Op>
T Butterfly(std::vector<T> values, Op op) {
  for (int distance = kLanes / 2; distance > 0; distance /= 2) {
    const std::vector<T> before = values;
    for (size_t lane = 0; lane < values.size(); ++lane) {
      values[lane] = op(before[lane], before[lane ^ static_cast<size_t>(distance)]);
    }
  }
  return values[0];
}

// The lanes of one warp, run one after the other: the host twin of DeviceWarp.
class HostWarp {
 public:
  HostWarp(int index, std::vector<int> order) : index_(index), order_(std::move(order)) {}

  int index() const { return index_; }
  template <typename Body>
  void ForEach(Body body) {
    for (const int lane : order_) body(lane);
  }
  template <typename Make, typename Op>
  auto Reduce(Make make, Op op) -> decltype(make(0)) {
    std::vector<decltype(make(0))> values(kLanes);
    for (const int lane : order_) values[static_cast<size_t>(lane)] = make(lane);
    return Butterfly(std::move(values), op);
  }

 private:
  int index_;
  std::vector<int> order_;
};

// The threads of one block, run one after the other in each phase: the host twin of DeviceCta. A
// phase in which threads depend on each other gives different results in different orders, and one
// behind the last, which nothing waits for on the device, ends the test program.
class HostCta {
 public:
  enum class Order { kForward, kBackward, kShuffled };

  explicit HostCta(int threads, Order order = Order::kForward)
      : order_(static_cast<size_t>(threads)) {
    std::iota(order_.begin(), order_.end(), 0);
    if (order == Order::kBackward) std::reverse(order_.begin(), order_.end());
    if (order == Order::kShuffled) std::shuffle(order_.begin(), order_.end(), std::mt19937(1));
  }

  int threads() const { return static_cast<int>(order_.size()); }
  template <typename Body>
  void ForEach(Body body) {
    BeginPhase();
    for (const int thread : order_) body(thread);
  }
  template <typename Body>
  void Single(Body body) {
    BeginPhase();
    body();
  }
  template <typename T>
  T Read(const T& shared) {
    BeginPhase();
    return shared;
  }
  template <typename T, int kWarps, typename Make, typename Op>
  T Reduce(T (&of_warps)[kWarps], Make make, Op op) {
    BeginPhase();
    for (HostWarp& warp : Warps()) {
      const auto of_lane = [&](int lane) { return make(warp.index() * kLanes + lane); };
      of_warps[warp.index()] = warp.Reduce(of_lane, op);
    }
    return std::accumulate(of_warps + 1, of_warps + kWarps, of_warps[0], op);
  }
  template <typename Body>
  void Finish(Body body) {
    ForEach(body);
    finished_ = true;
  }
  template <typename Body>
  void FinishByWarps(Body body) {
    BeginPhase();
    for (HostWarp& warp : Warps()) body(warp);
    finished_ = true;
  }

 private:
  void BeginPhase() const { BATON_CHECK(!finished_) << "a phase behind the last one"; }
  // Each with its lanes in the order of their threads.
  std::vector<HostWarp> Warps() const {
    std::vector<HostWarp> warps;
    for (const int first : order_) {
      if (first % kLanes != 0) continue;
      std::vector<int> lanes;
      for (const int thread : order_) {
        if (thread / kLanes == first / kLanes) lanes.push_back(thread % kLanes);
      }
      warps.emplace_back(first / kLanes, std::move(lanes));
    }
    return warps;
  }

  std::vector<int> order_;
  bool finished_ = false;
};

inline constexpr HostCta::Order kOrdersOfThreads[] = {
    HostCta::Order::kForward, HostCta::Order::kBackward, HostCta::Order::kShuffled};

}  // namespace baton::kernels::cuda
