// Rungs of fp8 products that the library has no algorithm for, with the library's answers faked.
#include "kernels/cuda/gemm/fp8_ladder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <set>
#include <vector>

#include "kernels/cuda/graph/row_buckets.h"

namespace baton::kernels::cuda {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr MatMulKey kShape = {.out = 256, .in = 512, .out_dtype = DType::kBF16, .fp8 = true};

// A library that lacks algorithms for some row counts, and notes what it is asked.
class Fp8LadderTest : public testing::Test {
 protected:
  absl::StatusOr<int64_t> Serve(int64_t rows, int64_t max_rows = 64, MatMulKey shape = kShape) {
    return ladder_.Serve(shape, rows, Fp8Ladder::MostRows(max_rows), [this](const MatMulKey& key) {
      asked_.push_back(key.rows);
      return lacks_(key) ? absl::UnimplementedError("none proposed") : absl::OkStatus();
    });
  }
  int64_t Served(int64_t rows, int64_t max_rows = 64, MatMulKey shape = kShape) {
    const auto rung = Serve(rows, max_rows, shape);
    EXPECT_TRUE(rung.ok()) << rung.status();
    return rung.value_or(-1);
  }

  Fp8Ladder ladder_;
  std::function<bool(const MatMulKey&)> lacks_ = [](const MatMulKey&) { return false; };
  std::vector<int64_t> asked_;
};

TEST_F(Fp8LadderTest, ARungThatHasAnAlgorithmServesItself) {
  for (const int64_t rows : RowBuckets(600)) EXPECT_EQ(Served(rows, 600), rows);
  EXPECT_EQ(asked_, RowBuckets(600));
  EXPECT_EQ(Served(3), 4);  // the rung of three rows
}

TEST_F(Fp8LadderTest, ARungWithoutOneIsServedByTheNextThatHasOne) {
  lacks_ = [](const MatMulKey& key) { return key.rows < 16 || key.rows == 32; };
  for (const int64_t rows : {1, 2, 4, 8, 16}) EXPECT_EQ(Served(rows), 16) << rows;
  EXPECT_EQ(Served(24), 24);
  EXPECT_EQ(Served(32), 40);
}

TEST_F(Fp8LadderTest, EachRungIsAskedOnceInTheLadder) {
  lacks_ = [](const MatMulKey& key) { return key.rows < 8; };
  EXPECT_EQ(Served(1), 8);
  EXPECT_EQ(Served(2), 8);
  EXPECT_EQ(Served(1), 8);
  EXPECT_EQ(Served(7), 8);
  EXPECT_THAT(asked_, ElementsAre(1, 2, 4, 8));
}

TEST_F(Fp8LadderTest, SmallStepsArePaddedBeyondTheLargest) {
  lacks_ = [](const MatMulKey& key) { return key.rows < 64; };
  EXPECT_EQ(Fp8Ladder::MostRows(4), 64);
  EXPECT_EQ(Served(4, 4), 64);
}

TEST_F(Fp8LadderTest, ShapesDoNotShareAnswers) {
  lacks_ = [](const MatMulKey& key) { return key.out == 256 && key.rows == 1; };
  MatMulKey other = kShape;
  other.out = 128;
  EXPECT_EQ(Served(1), 2);
  EXPECT_EQ(Served(1, 64, other), 1);
}

TEST_F(Fp8LadderTest, WithoutAnyRungTheRowsAndTheShapeAreNamed) {
  lacks_ = [](const MatMulKey& key) { return key.rows > 512; };
  EXPECT_EQ(Served(512, 2048), 512);
  const auto rung = Serve(600, 2048);
  ASSERT_EQ(rung.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(rung.status().message(),
              AllOf(HasSubstr("640 rows of 512 by a weight of 256 x 512"), HasSubstr("up to 2048"),
                    HasSubstr("none proposed"), HasSubstr("--quantization none")));
}

TEST_F(Fp8LadderTest, AnotherErrorIsPassedOnAndNotRemembered) {
  const auto broken = ladder_.Serve(
      kShape, 8, 64, [](const MatMulKey&) { return absl::InternalError("the device is gone"); });
  EXPECT_EQ(broken.status(), absl::InternalError("the device is gone"));
  EXPECT_EQ(Served(8), 8);
}

}  // namespace
}  // namespace baton::kernels::cuda
