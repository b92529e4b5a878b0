// Choosing a backend, what it reports, and what it refuses.
#include <omp.h>

#include <algorithm>
#include <set>

#include "kernels/machine_limits.h"
#include "tests/kernels/copy_blocks_fixture.h"
#include "tests/kernels/kernel_fixture.h"

namespace baton::kernels {
namespace {

TEST(BackendFactoryTest, ReportsHowItComputes) {
  for (const Way& way : CpuWays()) {
    const auto backend = Make(way);
    EXPECT_EQ(backend->info().device, Device::kCpu);
    EXPECT_EQ(backend->info().isa, way.isa);
    EXPECT_EQ(backend->info().threads, std::min(way.threads, omp_get_thread_limit()));
    EXPECT_EQ(backend->info().compute_dtype, way.dtype);
    const std::string prefix = way.isa == "amx"           ? "tiles"
                               : way.isa == "avx512_bf16" ? "pairs"
                                                          : "panel";
    EXPECT_THAT(backend->info().matmul, testing::StartsWith(prefix));
    EXPECT_THAT(backend->info().numerics(), testing::HasSubstr(way.isa));
  }
}

TEST(BackendFactoryTest, AutoTakesAnIsaOfThisMachine) {
  const auto backend = MakeBackend({});
  ASSERT_TRUE(backend.ok()) << backend.status();
  EXPECT_THAT((*backend)->info().isa, testing::AnyOf("avx512", "avx2"));
  const auto bf16 = MakeBackend({.compute_dtype = DType::kBF16});
  ASSERT_TRUE(bf16.ok()) << bf16.status();
  EXPECT_THAT((*bf16)->info().isa, testing::AnyOf("amx", "avx512_bf16", (*backend)->info().isa));
  EXPECT_GE((*backend)->info().threads, 1);
}

// Workers of different numerics are not paired while others are there.
TEST(BackendFactoryTest, EveryWayHasNumericsOfItsOwn) {
  std::set<std::string> numerics;
  for (const Way& way : CpuWays()) numerics.insert(Make(way)->info().numerics());
  EXPECT_EQ(numerics.size(), CpuWays().size());
}

TEST(BackendFactoryTest, WhatTheMachineLacksIsRefused) {
  for (const std::string isa : {"amx", "avx512_bf16"}) {
    if (MachineHas({Device::kCpu, isa, DType::kBF16})) continue;
    const auto backend = MakeBackend({.isa = isa, .compute_dtype = DType::kBF16});
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kOutOfRange) << "a setting, not the model";
    EXPECT_THAT(std::string(backend.status().message()),
                testing::HasSubstr("--isa " + isa + ": this "));
  }
}

TEST(BackendFactoryTest, RefusesWhatItCannotDo) {
  const auto message = [](const BackendOptions& options) {
    const auto backend = MakeBackend(options);
    EXPECT_FALSE(backend.ok());
    return std::string(backend.status().message());
  };
  EXPECT_THAT(message({.compute_dtype = DType::kF16}), testing::HasSubstr("bfloat16 or float32"));
  EXPECT_THAT(message({.quantization = Quantization::kFp8}),
              testing::HasSubstr("--quantization none"));
  EXPECT_THAT(message({.isa = "sse9"}), testing::HasSubstr("auto, amx, avx512_bf16, avx512 or"));
  for (const char* isa : {"amx", "avx512_bf16"})
    EXPECT_THAT(message({.isa = isa}), testing::HasSubstr("--dtype bfloat16"));
  EXPECT_THAT(message({.threads = -1}), testing::HasSubstr("threads -1"));
}

TEST(BackendFactoryTest, WhatItCannotDoIsASettingThatIsWrong) {
  for (const BackendOptions& options :
       {BackendOptions{.compute_dtype = DType::kF16},
        BackendOptions{.quantization = Quantization::kFp8}, BackendOptions{.isa = "sse9"},
        BackendOptions{.isa = "amx"}, BackendOptions{.isa = "avx512_bf16"}}) {
    const auto backend = MakeBackend(options);
    EXPECT_EQ(backend.status().code(), absl::StatusCode::kOutOfRange) << backend.status();
  }
}

#if !BATON_HAS_CUDA
TEST(BackendFactoryTest, ABuildWithoutCudaSaysSo) {
  const auto backend = MakeBackend({.device = Device::kCuda});
  EXPECT_EQ(backend.status().code(), absl::StatusCode::kOutOfRange);
  EXPECT_THAT(std::string(backend.status().message()),
              testing::HasSubstr("--device cuda: this build has no CUDA; "));
}
#endif

TEST(BackendFactoryTest, NamesAreReadAsTheyArePrinted) {
  for (const Device device : {Device::kCpu, Device::kCuda, Device::kReference}) {
    EXPECT_EQ(ParseDevice(Name(device)), device);
  }
  for (const DType dtype : {DType::kF32, DType::kBF16, DType::kF16}) {
    EXPECT_EQ(ParseDType(Name(dtype)), dtype);
  }
  for (const Quantization quantization : {Quantization::kNone, Quantization::kFp8}) {
    EXPECT_EQ(ParseQuantization(Name(quantization)), quantization);
  }
  for (const char* other : {"", "tpu", "int8", "auto", "CPU"}) {
    EXPECT_EQ(ParseDevice(other), std::nullopt);
    EXPECT_EQ(ParseDType(other), std::nullopt);
    EXPECT_EQ(ParseQuantization(other), std::nullopt);
  }
}

TEST(BackendFactoryTest, PreparedWeightsServeEveryNumberOfRows) {
  for (const Way& way : CpuWays()) {
    const auto backend = Make(way);
    const TestMatrix weight = TestMatrix::Random(way.dtype, 96, 64, 1);
    const auto packed = backend->Pack(weight.tensor(), {});
    ASSERT_TRUE(packed.ok());
    EXPECT_GE((*packed)->bytes(), 96 * 64 * SizeOf(way.dtype));
    const MatMulUse use{.weight = packed->get(), .max_rows = 130};
    const absl::Status prepared = backend->Prepare({.products = {&use, 1}, .max_tokens = 130});
    ASSERT_TRUE(prepared.ok()) << prepared;
    for (const int64_t rows : {1, 64, 81, 130, 1000}) {
      TestMatrix x = TestMatrix::Random(way.dtype, rows, 64, 2);
      TestMatrix y(DType::kF32, rows, 96);
      backend->MatMul(**packed, x.view(), y.view(), {});
      double sum = 0;
      for (int k = 0; k < 64; ++k) sum += x.at(rows - 1, k) * weight.at(95, k);
      EXPECT_NEAR(y.at(rows - 1, 95), sum, 1e-3);
    }
  }
}

// What a limit on threads or a caller's own region does.
TEST(ThreadsTest, FewerThanAskedForComputeTheSame) {
  const int levels = omp_get_max_active_levels();
  for (const Way& way : CpuWays()) {
    omp_set_max_active_levels(0);
    const auto backend = Make(way);
    EXPECT_EQ(backend->info().threads, 1) << way.name();
    const TestMatrix weight = TestMatrix::Random(way.dtype, 96, 64, 1);
    const auto packed = backend->Pack(weight.tensor(), {});
    ASSERT_TRUE(packed.ok()) << packed.status();
    TestMatrix x = TestMatrix::Random(way.dtype, 40, 64, 2);
    TestMatrix y(DType::kF32, 40, 96);
    backend->MatMul(**packed, x.view(), y.view(), {});
    omp_set_max_active_levels(levels);
    for (int row = 0; row < 40; ++row) {
      for (int column = 0; column < 96; ++column) {
        double sum = 0;
        for (int k = 0; k < 64; ++k) sum += x.at(row, k) * weight.at(column, k);
        ASSERT_NEAR(y.at(row, column), sum, 1e-3) << way.name() << " " << row << " " << column;
      }
    }
  }
}

TEST(ThreadsTest, AThreadWithASmallerTeamIsRefused) {
  const auto backend = Make({Device::kCpu, "avx2", DType::kF32});
  if (backend->info().threads == 1) return;  // no team is smaller
  const TestMatrix weight = TestMatrix::Random(DType::kF32, 96, 64, 1);
  absl::Status in_region;
#pragma omp parallel num_threads(2)
#pragma omp single
  in_region = backend->Pack(weight.tensor(), {}).status();
  EXPECT_THAT(std::string(in_region.message()), testing::HasSubstr("a team of 1"));
  EXPECT_TRUE(backend->Pack(weight.tensor(), {}).ok());
}

TEST(ThreadsTest, DoNotFollowTheLoadOfTheMachine) {
  omp_set_dynamic(1);
  const auto backend = Make({Device::kCpu, "avx2", DType::kF32});
  EXPECT_EQ(omp_get_dynamic(), 0);
  omp_set_dynamic(1);
  const TestMatrix weight = TestMatrix::Random(DType::kF32, 8, 8, 1);
  EXPECT_TRUE(backend->Pack(weight.tensor(), {}).ok());
  EXPECT_EQ(omp_get_dynamic(), 0);
}

TEST(MachineLimitsTest, MeasuresSomethingPlausible) {
  for (const Way& way : CpuWays()) {
    for (const bool integers : {false, true}) {
      SCOPED_TRACE(way.name() + (integers ? " of integers" : ""));
      const MachineLimits limits = MeasureMachineLimits(Make(way)->info(), integers);
      EXPECT_GT(limits.flops_per_s, 0);
      EXPECT_LT(limits.flops_per_s, 1e15);
      EXPECT_GT(limits.read_bytes_per_s, 0);
      EXPECT_LT(limits.read_bytes_per_s, 1e13);
    }
  }
}

// The other load of a machine slows both alike, and by far less than the factor between them.
TEST(MachineLimitsTest, BytesAreMultipliedFasterThanFloats) {
  const auto backend = Make({Device::kCpu, "avx2", DType::kF32});
  EXPECT_GT(MeasureMachineLimits(backend->info(), true).flops_per_s,
            1.2 * MeasureMachineLimits(backend->info(), false).flops_per_s);
}

TEST(BackendFactoryTest, AllocatedMemoryIsAligned) {
  const auto backend = Make({Device::kCpu, "avx2", DType::kF32});
  for (const size_t bytes : {size_t{1}, size_t{100}, size_t{5} << 20}) {
    const auto buffer = backend->Allocate(bytes);
    ASSERT_TRUE(buffer.ok());
    EXPECT_EQ((*buffer)->size(), bytes);
    EXPECT_EQ(reinterpret_cast<uintptr_t>((*buffer)->data()) % 64, 0u);
  }
}

TEST(CopyBlocksTest, MovesWholeBlocks) {
  ExpectBlocksCopied(*Make({Device::kCpu, "avx2", DType::kF32}));
  ExpectBlocksCopied(*Make({Device::kReference, "", DType::kF32}));
}

TEST(CopyBlocksDeathTest, BlocksThatAreNotThereOrOverlap) {
  std::vector<std::byte> memory(size_t{4} << 10);
  PagedKv kv{.arena = memory.data(),
             .layout = {.block_size = 4, .layers = 1, .kv_heads = 1, .head_dim = 8},
             .num_blocks = 3};
  const auto backend = Make({Device::kCpu, "avx2", DType::kF32});
  const auto copy = [&](std::vector<BlockCopy> copies) {
    EXPECT_TRUE(backend->CopyBlocks(kv, kv, copies).ok());
  };
  copy({{0, 1}, {0, 2}});
  EXPECT_DEATH(copy({{0, 3}}), "in a cache of 3");
  EXPECT_DEATH(copy({{-1, 1}}), "in a cache of 3");
  EXPECT_DEATH(copy({{0, 1}, {2, 1}}), "written by two");
  EXPECT_DEATH(copy({{0, 1}, {1, 2}}), "read by a copy and written");
  PagedKv other = kv;
  other.layout.block_size = 8;
  EXPECT_DEATH((void)backend->CopyBlocks(kv, other, {}), "to blocks of");
}

}  // namespace
}  // namespace baton::kernels
