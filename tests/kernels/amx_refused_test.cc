// An operating system that refuses AMX: Linux does where a signal stack of the process is too small
// for the state of tiles. The answer is asked for once, so this is a process of its own.
#include <signal.h>

#include <array>

#include "kernels/cpu/isa.h"
#include "tests/kernels/kernel_fixture.h"

namespace baton::kernels {
namespace {

TEST(AmxRefusedTest, AutoTakesAnother) {
  static std::array<std::byte, 8192> stack;
  const stack_t small = {.ss_sp = stack.data(), .ss_flags = 0, .ss_size = stack.size()};
  stack_t before = {};
  ASSERT_EQ(sigaltstack(&small, &before), 0);
  const auto backend = MakeBackend({.compute_dtype = DType::kBF16, .threads = 1});
  const auto amx = MakeBackend({.isa = "amx", .compute_dtype = DType::kBF16, .threads = 1});
  EXPECT_EQ(sigaltstack(&before, nullptr), 0);

  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_THAT((*backend)->info().isa, testing::AnyOf("avx512_bf16", "avx512", "avx2"));
  ASSERT_FALSE(amx.ok());
  if (cpu::HasAmxBf16()) {
    EXPECT_THAT(std::string(amx.status().message()), testing::HasSubstr("refuses its tiles"));
  }
  TestMatrix x = TestMatrix::Random(DType::kBF16, 3, 64, 2);
  const TestMatrix weight = TestMatrix::Random(DType::kBF16, 40, 64, 1);
  TestMatrix y(DType::kF32, 3, 40);
  (*backend)->MatMul(**(*backend)->Pack(weight.tensor(), {}), x.view(), y.view(), {});
  double sum = 0;
  for (int64_t k = 0; k < 64; ++k) sum += x.at(2, k) * weight.at(39, k);
  EXPECT_NEAR(y.at(2, 39), sum, 1e-3);
}

}  // namespace
}  // namespace baton::kernels
