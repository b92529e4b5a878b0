#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/cta/quantized_product.h"
#include "kernels/cuda/gemm/quantized_image.h"
#include "kernels/host_memory.h"
#include "tests/kernels/cuda/cta/element_values.h"
#include "tests/kernels/cuda/cta/host_cta.h"
#include "tests/kernels/quantized_fixture.h"

namespace baton::kernels::cuda {

// A weight of integers as the device has it, in the host's memory, and what the kernels of
// gemm/quantized.cu do with it, thread by thread.
class EmulatedIntegers {
 public:
  EmulatedIntegers(const QuantizedTensor& weight, const Shard& shard) {
    const auto part = ResolveShard(weight, shard);
    EXPECT_TRUE(part.ok()) << part.status();
    const auto places = QuantizedPlaces::Of(weight, *part);
    EXPECT_TRUE(places.ok()) << places.status();
    bytes_ = places->bytes();
    image_ = AllocateHost(bytes_).value();
    places->Fill(weight, *part, static_cast<std::byte*>(image_->data()));
    view_ = places->At(image_->data());
  }

  const QuantizedView& view() const { return view_; }
  size_t bytes() const { return bytes_; }

  // As LaunchFewRows. `scalar`: as if the input began at an odd address.
  template <typename T>
  void Multiply(FewRows<T> rows, HostCta::Order order, bool scalar = false) const {
    rows.aligned = !scalar && view_.input_of == nullptr && view_.in % kRunColumns == 0;
    if (view_.bits == 4) return MultiplyBits<T, 4>(rows, order);
    MultiplyBits<T, 8>(rows, order);
  }

  // As LaunchWiden.
  template <typename T>
  std::vector<T> Widened() const {
    std::vector<T> numbers(static_cast<size_t>(view_.out * view_.in));
    const bool aligned = view_.input_of == nullptr && view_.in % kRunColumns == 0;
    for (int64_t out = 0; out < view_.out; ++out) {
      for (int64_t word = 0; word < view_.words; ++word) {
        if (view_.bits == 4) {
          WidenWord<T, 4>(view_, out, word, aligned, numbers.data());
        } else {
          WidenWord<T, 8>(view_, out, word, aligned, numbers.data());
        }
      }
    }
    return numbers;
  }

 private:
  template <typename T, int kBits>
  void MultiplyBits(const FewRows<T>& rows, HostCta::Order order) const {
    if (rows.rows == 1) return MultiplyRows<T, kBits, 1>(rows, order);
    if (rows.rows == 2) return MultiplyRows<T, kBits, 2>(rows, order);
    if (rows.rows <= 4) return MultiplyRows<T, kBits, 4>(rows, order);
    if (rows.rows <= 8) return MultiplyRows<T, kBits, 8>(rows, order);
    MultiplyRows<T, kBits, 16>(rows, order);
  }
  template <typename T, int kBits, int kRows>
  void MultiplyRows(const FewRows<T>& rows, HostCta::Order order) const {
    HostCta cta(kProductThreads, order);
    const auto shared = std::make_unique<ProductShared<kRows>>();
    constexpr int kOutputs = OutputsOfBlock(kRows);
    for (int64_t block = 0; block * kOutputs < view_.out; ++block) {
      MultiplyFewRows<HostCta, T, kBits, kRows>(cta, view_, rows, block, *shared);
    }
  }

  std::unique_ptr<Buffer> image_;
  size_t bytes_ = 0;
  QuantizedView view_;
};

}  // namespace baton::kernels::cuda
