#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "kernels/backend.h"
#include "kernels/cuda/gemm/device_weights.h"
#include "kernels/cuda/gemm/matmul.h"

namespace baton::kernels::cuda {

// What uses have in common that one algorithm serves. Those that all ranks have come first and in
// one order, so that ranks which choose together ask each other as often and about the same.
struct ProductKey {
  bool part = false;  // MatMulUse::part
  bool integers = false;
  MatMulKey shape;  // of no rows

  auto tie() const { return std::tuple(part, integers, shape); }
  friend bool operator<(const ProductKey& a, const ProductKey& b) { return a.tie() < b.tie(); }
  friend bool operator==(const ProductKey& a, const ProductKey& b) { return a.tie() == b.tie(); }
};

// The uses of one key.
struct Product {
  std::vector<const DeviceWeight*> weights;  // none of integers
  int64_t max_rows = 0;
};

// Groups the products of a model, most of which layers have in common, on a device that computes in
// `dtype`.
std::map<ProductKey, Product> GroupProducts(std::span<const MatMulUse> uses, DType dtype);

}  // namespace baton::kernels::cuda
