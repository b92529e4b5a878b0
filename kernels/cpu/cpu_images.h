#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cpu/gemm.h"
#include "kernels/cpu/isa.h"
#include "kernels/packed_images.h"

namespace baton::kernels::cpu {

// The images of the CPU backend: those of its Gemm, and of weights of small integers.
class CpuImages final : public PackedImages {
 public:
  // `gemm` outlives this.
  CpuImages(std::string isa, const Gemm& gemm) : isa_(std::move(isa)), gemm_(gemm) {}

  std::string layout() const override;
  std::vector<int> cpus() const override;
  PackedImage ImageOf(const PackedWeight& weight) const override;
  absl::StatusOr<std::unique_ptr<PackedWeight>> FromImage(const PackedImage& image, int64_t out,
                                                          int64_t in) const override;

 private:
  const std::string isa_;
  const Gemm& gemm_;
};

}  // namespace baton::kernels::cpu
