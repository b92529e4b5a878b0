#include "kernels/cpu/isa.h"

#include <cpuid.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "common/base/status.h"
#include "hwy/targets.h"
#include "spdlog/spdlog.h"

namespace baton::kernels::cpu {
namespace {

// What this processor says of itself in leaf 7 of CPUID.
struct ExtendedFeatures {
  unsigned eax = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
};

ExtendedFeatures FeaturesOf(unsigned subleaf) {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, subleaf, &eax, &ebx, &ecx, &edx) == 0) return {};
  return {eax, ecx, edx};
}

bool IsOfIntel() {
  static const bool intel = [] {
    unsigned eax = 0;
    unsigned ebx = 0;
    unsigned ecx = 0;
    unsigned edx = 0;
    return __get_cpuid(0, &eax, &ebx, &ecx, &edx) != 0 && ebx == signature_INTEL_ebx &&
           ecx == signature_INTEL_ecx && edx == signature_INTEL_edx;
  }();
  return intel;
}

// Linux hands out the state of tiles on demand only (arch_prctl(2)); kernels before 5.16 do not.
bool AskForTiles() {
  constexpr int kRequestPermission = 0x1023;  // ARCH_REQ_XCOMP_PERM
  constexpr int kTileData = 18;               // XFEATURE_XTILEDATA
  return syscall(SYS_arch_prctl, kRequestPermission, kTileData) == 0;
}

constexpr char kRefused[] =
    "this processor has AMX, but the operating system refuses its tiles (they take Linux 5.16, and "
    "that no thread has a signal stack of less than 16 KiB)";

// amx and avx512_bf16 are of use to one type only.
absl::Status CheckBf16(Isa isa, DType compute_dtype) {
  if (compute_dtype == DType::kBF16) return absl::OkStatus();
  return absl::OutOfRangeError(absl::StrCat(
      "--isa ", std::string(Name(isa)), ": it multiplies bfloat16 and the computation is in ",
      std::string(Name(compute_dtype)), "; use --isa avx512 or --dtype bfloat16"));
}

absl::StatusOr<Isa> ChooseAmx(bool avx512, DType compute_dtype) {
  BATON_RETURN_IF_ERROR(CheckBf16(Isa::kAmx, compute_dtype));
  if (!avx512 || !HasAmxBf16()) {
    return absl::OutOfRangeError("--isa amx: this processor lacks AMX; use --isa auto");
  }
  if (MayUseAmx()) return Isa::kAmx;
  return absl::OutOfRangeError(absl::StrCat("--isa amx: ", kRefused, "; use --isa avx512"));
}

absl::StatusOr<Isa> ChooseAvx512Bf16(bool avx512, DType compute_dtype) {
  BATON_RETURN_IF_ERROR(CheckBf16(Isa::kAvx512Bf16, compute_dtype));
  if (avx512 && HasAvx512Bf16()) return Isa::kAvx512Bf16;
  return absl::OutOfRangeError(
      "--isa avx512_bf16: this processor lacks avx512_bf16; use --isa auto");
}

Isa ChooseBest(bool avx512, DType compute_dtype) {
  if (!avx512) return Isa::kAvx2;
  if (compute_dtype != DType::kBF16) return Isa::kAvx512;
  if (MayUseAmx()) return Isa::kAmx;
  const Isa best = MultipliesPairsFast() ? Isa::kAvx512Bf16 : Isa::kAvx512;
  static const bool said = [&] {
    if (HasAmxBf16()) spdlog::warn("{}; products take {}", kRefused, Name(best));
    return true;
  }();
  static_cast<void>(said);
  return best;
}

}  // namespace

std::string_view Name(Isa isa) {
  switch (isa) {
    case Isa::kAvx2:
      return "avx2";
    case Isa::kAvx512:
      return "avx512";
    case Isa::kAvx512Bf16:
      return "avx512_bf16";
    case Isa::kAmx:
      return "amx";
  }
  return "";
}

Isa VectorIsa(Isa isa) { return isa == Isa::kAvx2 ? Isa::kAvx2 : Isa::kAvx512; }

absl::StatusOr<Isa> ChooseIsa(std::string_view wanted, DType compute_dtype) {
  const auto supported = hwy::SupportedTargets();
  if ((supported & HWY_AVX2) == 0) {
    return absl::FailedPreconditionError(
        "this processor lacks AVX2 and FMA; the cpu backend needs at least those (2013 or later)");
  }
  const bool avx512 = (supported & HWY_AVX3) != 0;
  if (wanted == "auto") return ChooseBest(avx512, compute_dtype);
  if (wanted == "amx") return ChooseAmx(avx512, compute_dtype);
  if (wanted == "avx512_bf16") return ChooseAvx512Bf16(avx512, compute_dtype);
  if (wanted == "avx2") return Isa::kAvx2;
  if (wanted != "avx512") {
    return absl::OutOfRangeError(absl::StrCat(
        "--isa '", std::string(wanted), "'; expected auto, amx, avx512_bf16, avx512 or avx2"));
  }
  if (avx512) return Isa::kAvx512;
  return absl::OutOfRangeError("--isa avx512: this processor lacks AVX-512; use --isa avx2");
}

bool HasAvx512Bf16() { return (FeaturesOf(1).eax & (1u << 5)) != 0; }

bool HasVnni() { return (FeaturesOf(0).ecx & (1u << 11)) != 0; }

bool MultipliesPairsFast() { return HasAvx512Bf16() && !IsOfIntel(); }

bool FetchesByHints() { return IsOfIntel(); }

bool HasAmxBf16() {
  constexpr unsigned kBf16 = 1u << 22;
  constexpr unsigned kTile = 1u << 24;
  return (FeaturesOf(0).edx & (kBf16 | kTile)) == (kBf16 | kTile);
}

bool MayUseAmx() {
  static const bool may = HasAmxBf16() && AskForTiles();
  return may;
}

}  // namespace baton::kernels::cpu
