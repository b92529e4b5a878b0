#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "kernels/cuda/cta/cta.h"

namespace baton::kernels::cuda {

// The threads of one block, run one after the other in each phase: the host twin of DeviceCta. A
// phase in which threads depend on each other gives different results in different orders.
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
    for (const int thread : order_) body(thread);
  }
  template <typename Body>
  void Single(Body body) {
    body();
  }
  template <typename T>
  T Read(const T& shared) {
    return shared;
  }

 private:
  std::vector<int> order_;
};

}  // namespace baton::kernels::cuda
