#include "kernels/cuda/gemm/product_groups.h"

#include <algorithm>

#include "kernels/cuda/gemm/fp8_products.h"

namespace baton::kernels::cuda {

std::map<ProductKey, Product> GroupProducts(std::span<const MatMulUse> uses, DType dtype) {
  std::map<ProductKey, Product> products;
  for (const MatMulUse& use : uses) {
    const bool integers = use.weight->quantized();
    const DeviceWeight* weight = integers ? nullptr : &OnDevice(*use.weight);
    MatMulKey shape = {.out = use.weight->out(),
                       .in = use.weight->in(),
                       .out_dtype = use.out,
                       .bias = use.bias,
                       .accumulate = use.accumulate};
    if (!integers && weight->fp8()) shape = Fp8Products::KeyOf(*weight, 0, dtype);
    Product& product = products[{.part = use.part, .integers = integers, .shape = shape}];
    if (!integers) product.weights.push_back(weight);
    product.max_rows = std::max<int64_t>(product.max_rows, use.max_rows);
  }
  return products;
}

}  // namespace baton::kernels::cuda
