#include "kernels/cpu/cpu_images.h"

#include "kernels/cpu/cores.h"
#include "kernels/cpu/quantized_weight.h"

namespace baton::kernels::cpu {

std::string CpuImages::layout() const {
  return isa_ + ", " + gemm_.layout() + ", " + std::string(QuantizedWeight::kLayout);
}

std::vector<int> CpuImages::cpus() const { return UsableCpus(); }

PackedImage CpuImages::ImageOf(const PackedWeight& weight) const {
  if (weight.quantized()) return static_cast<const QuantizedWeight&>(weight).Image();
  return gemm_.ImageOf(weight);
}

absl::StatusOr<std::unique_ptr<PackedWeight>> CpuImages::FromImage(const PackedImage& image,
                                                                   int64_t out, int64_t in) const {
  if (QuantizedWeight::IsForm(image.form)) return QuantizedWeight::FromImage(image, out, in);
  return gemm_.FromImage(image, out, in);
}

}  // namespace baton::kernels::cpu
