#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "common/base/check.h"
#include "kernels/backend.h"
#include "kernels/backend_factory.h"
#include "kernels/float_convert.h"

namespace baton::kernels {

// One way to compute: what the suites of this folder are parameterised by.
struct Way {
  Device device = Device::kCpu;
  std::string isa;
  DType dtype = DType::kF32;
  int threads = 2;

  std::string name() const {
    return std::string(Name(device)) + "_" + isa + "_" + std::string(Name(dtype));
  }
};

inline std::unique_ptr<Backend> Make(const Way& way) {
  auto backend = MakeBackend(
      {.device = way.device, .isa = way.isa, .compute_dtype = way.dtype, .threads = way.threads});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return backend.ok() ? std::move(backend).value() : nullptr;
}

// Where the machine lacks avx512, `auto` says so by taking avx2, and where it lacks amx by taking
// another for bf16.
inline bool MachineHas(const Way& way) {
  if (way.isa == "avx2" || way.isa == "auto") return true;
  if (way.isa == "amx" && way.dtype != DType::kBF16) return false;
  if (way.isa == "avx512_bf16") {
    return way.dtype == DType::kBF16 && __builtin_cpu_supports("avx512bf16") != 0;
  }
  const auto backend = MakeBackend({.compute_dtype = way.dtype, .threads = 1});
  if (!backend.ok()) return false;
  const std::string& best = (*backend)->info().isa;
  return way.isa == "amx" ? best == "amx" : best != "avx2";
}

// Every CPU way that this machine can run.
inline std::vector<Way> CpuWays() {
  std::vector<Way> ways;
  for (const char* isa : {"amx", "avx512_bf16", "avx512", "avx2"}) {
    for (const DType dtype : {DType::kF32, DType::kBF16}) {
      const Way way{Device::kCpu, isa, dtype};
      if (MachineHas(way)) ways.push_back(way);
    }
  }
  return ways;
}

inline std::string WayName(const testing::TestParamInfo<Way>& info) { return info.param.name(); }

// A matrix with its memory, filled with values that the dtype holds exactly.
class TestMatrix {
 public:
  TestMatrix(DType dtype, int64_t rows, int64_t cols)
      : bytes_(static_cast<size_t>(rows * cols) * SizeOf(dtype) + 64),
        dtype_(dtype),
        rows_(rows),
        cols_(cols) {}

  static TestMatrix Random(DType dtype, int64_t rows, int64_t cols, uint32_t seed,
                           float scale = 1) {
    TestMatrix matrix(dtype, rows, cols);
    std::mt19937 random(seed);
    std::normal_distribution<float> normal(0, scale);
    for (int64_t i = 0; i < rows * cols; ++i) {
      StoreElement(matrix.data(), dtype, i, normal(random));
    }
    return matrix;
  }

  void* data() {
    const auto address = reinterpret_cast<uintptr_t>(bytes_.data());
    return reinterpret_cast<void*>((address + 63) / 64 * 64);
  }
  const void* data() const { return const_cast<TestMatrix*>(this)->data(); }
  Matrix view() { return Matrix::Dense(data(), dtype_, rows_, cols_); }
  Matrix rows(int64_t begin, int64_t count) {
    return Matrix::Dense(view().row(begin), dtype_, count, cols_);
  }
  HostTensor tensor() const { return {data(), dtype_, rows_, cols_}; }
  float at(int64_t row, int64_t col) const {
    return LoadElement(data(), dtype_, row * cols_ + col);
  }
  // The bytes of one row, to compare bit by bit.
  std::string bits(int64_t row) const {
    const auto size = static_cast<size_t>(cols_) * SizeOf(dtype_);
    return {static_cast<const char*>(data()) + static_cast<size_t>(row) * size, size};
  }
  std::vector<float> Values() const {
    std::vector<float> values(static_cast<size_t>(rows_ * cols_));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = LoadElement(data(), dtype_, static_cast<int64_t>(i));
    }
    return values;
  }
  int64_t row_count() const { return rows_; }
  int64_t cols() const { return cols_; }
  DType dtype() const { return dtype_; }

 private:
  TestMatrix(const TestMatrix&) = delete;

 public:
  TestMatrix(TestMatrix&& other) noexcept
      : dtype_(other.dtype_), rows_(other.rows_), cols_(other.cols_) {
    std::vector<std::byte> copy(other.bytes_.size());
    std::swap(bytes_, copy);
    std::memcpy(data(), other.data(), static_cast<size_t>(rows_ * cols_) * SizeOf(dtype_));
  }
  TestMatrix Copy() const {
    TestMatrix copy(dtype_, rows_, cols_);
    std::memcpy(copy.data(), data(), static_cast<size_t>(rows_ * cols_) * SizeOf(dtype_));
    return copy;
  }

 private:
  std::vector<std::byte> bytes_;
  DType dtype_;
  int64_t rows_;
  int64_t cols_;
};

// The largest |actual - expected|, in units of `relative` times the larger of |expected| and the
// root mean square of its row: at most 1 when all are as near as that. So the bound follows the
// size of what is compared. A value that is no number is infinitely far away.
inline double Distance(std::span<const float> actual, std::span<const float> expected, int64_t cols,
                       double relative) {
  BATON_CHECK(actual.size() == expected.size()) << actual.size() << " " << expected.size();
  double farthest = 0;
  for (size_t begin = 0; begin < expected.size(); begin += static_cast<size_t>(cols)) {
    const auto row = expected.subspan(begin, static_cast<size_t>(cols));
    double squares = 0;
    for (const float x : row) squares += double{x} * x;
    const double size = std::sqrt(squares / static_cast<double>(cols));
    for (size_t i = 0; i < row.size(); ++i) {
      const double difference = std::abs(double{actual[begin + i]} - row[i]);
      const double bound = relative * std::max<double>(std::abs(row[i]), size);
      if (difference == 0) continue;
      const double distance = difference / bound;
      farthest = std::isnan(distance) ? INFINITY : std::max(farthest, distance);
    }
  }
  return farthest;
}

// |actual - expected| <= relative * max(|expected|, floor); reports the first that is not.
inline void ExpectClose(const TestMatrix& actual, const TestMatrix& expected, double relative,
                        double floor) {
  ASSERT_EQ(actual.row_count(), expected.row_count());
  ASSERT_EQ(actual.cols(), expected.cols());
  for (int64_t row = 0; row < actual.row_count(); ++row) {
    for (int64_t col = 0; col < actual.cols(); ++col) {
      const double want = expected.at(row, col);
      const double bound = relative * std::max(std::abs(want), floor);
      ASSERT_NEAR(actual.at(row, col), want, bound) << "row " << row << " column " << col;
    }
  }
}

// Half a unit in the last place of the stored dtype, with room for the order of sums.
inline double Tolerance(DType dtype) { return dtype == DType::kF32 ? 2e-5 : 8e-3; }

}  // namespace baton::kernels
