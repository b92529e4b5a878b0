#include "kernels/cpu/isa.h"

#include <cpuid.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "hwy/targets.h"

namespace baton::kernels::cpu {
namespace {

// What this processor says of itself in leaf 7 of CPUID.
struct ExtendedFeatures {
  unsigned eax = 0;
  unsigned edx = 0;
};

ExtendedFeatures FeaturesOf(unsigned subleaf) {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, subleaf, &eax, &ebx, &ecx, &edx) == 0) return {};
  return {eax, edx};
}

bool HasAvx512Bf16() { return (FeaturesOf(1).eax & (1u << 5)) != 0; }

}  // namespace

std::string_view Name(Isa isa) { return isa == Isa::kAvx512 ? "avx512" : "avx2"; }

absl::StatusOr<Isa> ChooseIsa(std::string_view wanted) {
  const auto supported = hwy::SupportedTargets();
  if ((supported & HWY_AVX2) == 0) {
    return absl::FailedPreconditionError(
        "this processor lacks AVX2 and FMA; the cpu backend needs at least those (2013 or later)");
  }
  const bool avx512 = (supported & HWY_AVX3) != 0;
  if (wanted == "auto") return avx512 ? Isa::kAvx512 : Isa::kAvx2;
  if (wanted == "avx2") return Isa::kAvx2;
  if (wanted != "avx512") {
    return absl::InvalidArgumentError(
        absl::StrCat("isa '", std::string(wanted), "'; expected auto, avx512 or avx2"));
  }
  if (avx512) return Isa::kAvx512;
  return absl::FailedPreconditionError("isa avx512: this processor lacks AVX-512; use --isa avx2");
}

bool HasAvx512Products(DType compute_dtype) {
  return compute_dtype != DType::kBF16 || HasAvx512Bf16();
}

bool HasAmxBf16() { return (FeaturesOf(0).edx & (1u << 22)) != 0; }

}  // namespace baton::kernels::cpu
