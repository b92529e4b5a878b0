#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "kernels/dtype.h"

namespace baton::kernels::cpu {

// The instruction sets of a backend. Every kernel that all machines have exists once for AVX2 and
// once for AVX-512, and a backend uses one of them from start to end; kAvx512Bf16 is AVX-512 with
// products in bf16, attention's among them, by pairs, and kAmx with products by tiles. Whether
// products by integers take VNNI, whose bits are those of the others, is asked of the machine.
enum class Isa { kAvx2, kAvx512, kAvx512Bf16, kAmx };

std::string_view Name(Isa isa);

// The instruction set that `wanted` ("auto", "amx", "avx512_bf16", "avx512" or "avx2") stands for
// in a backend that computes in `compute_dtype`; "auto" is the fastest that this machine has, amx
// and avx512_bf16 for bf16 only. Where the processor has AMX and the operating system refuses it,
// "auto" says so once in the log. OUT_OF_RANGE for another name, for these two with another dtype
// and where the machine lacks what is wanted, FAILED_PRECONDITION where it lacks AVX2, too.
absl::StatusOr<Isa> ChooseIsa(std::string_view wanted, DType compute_dtype);

// The instruction set of all kernels but the product and attention: kAvx2 or kAvx512.
Isa VectorIsa(Isa isa);

// Whether this machine multiplies pairs of bf16 (avx512_bf16).
bool HasAvx512Bf16();

// Whether it is faster by pairs of bf16 than in fp32. Processors of AMD have twice the rate of
// products with them; of Intel's, which multiply a pair every other cycle, half.
bool MultipliesPairsFast();

// Whether this machine multiplies and sums bytes at once (avx512_vnni), which matters beside
// AVX-512 alone.
bool HasVnni();

// Whether a thread that reads memory from front to back, with some work on every line, gets it
// sooner by hints. Processors of Intel do; of AMD's Zen 4 hints cost a fifth of the rate.
bool FetchesByHints();

// Whether this machine multiplies tiles of bf16 (AMX).
bool HasAmxBf16();

// Whether this process may: the operating system gives tiles to those that ask, which the first
// call does for all threads, those to come included.
bool MayUseAmx();

}  // namespace baton::kernels::cpu
