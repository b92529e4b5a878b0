#pragma once

#include <bit>
#include <cstring>
#include <random>
#include <string>
#include <vector>

#include "tests/kernels/kernel_fixture.h"

namespace baton::kernels {

inline void StoreAny(void* data, DType dtype, int64_t index, float value) {
  if (dtype == DType::kF16) {
    static_cast<uint16_t*>(data)[index] = F16FromFloat(value);
  } else {
    StoreElement(data, dtype, index, value);
  }
}

// Half a unit in the last place of the stored dtype, with room for the order of sums.
inline double DeviceTolerance(DType dtype) {
  return dtype == DType::kF32 ? 2e-5 : dtype == DType::kF16 ? 2e-3 : 8e-3;
}

// Values k/64 with |k| <= 128, which every dtype holds exactly: so a reference in fp32 has the same
// inputs as a device in any dtype.
inline std::vector<float> ExactValues(int64_t count, uint32_t seed) {
  std::mt19937 random(seed);
  std::uniform_int_distribution<int> steps(-128, 128);
  std::vector<float> values(static_cast<size_t>(count));
  for (float& value : values) value = static_cast<float>(steps(random)) / 64.0f;
  return values;
}

// A matrix on the device and the fp32 values it was made from.
class DeviceMatrix {
 public:
  DeviceMatrix(Backend& backend, DType dtype, int64_t rows, int64_t cols)
      : backend_(backend), dtype_(dtype), rows_(rows), cols_(cols) {
    auto buffer = backend.Allocate(static_cast<size_t>(rows * cols) * SizeOf(dtype));
    EXPECT_TRUE(buffer.ok()) << buffer.status();
    if (buffer.ok()) buffer_ = std::move(buffer).value();
    // NaN, so that what was not written shows.
    const std::vector<uint8_t> poison(static_cast<size_t>(rows * cols) * SizeOf(dtype), 0xff);
    EXPECT_TRUE(backend.Upload(poison.data(), poison.size(), buffer_->data()).ok());
  }
  DeviceMatrix(Backend& backend, DType dtype, int64_t rows, int64_t cols,
               const std::vector<float>& values)
      : DeviceMatrix(backend, dtype, rows, cols) {
    const std::vector<std::byte> bytes = Encode(dtype, values);
    EXPECT_TRUE(backend.Upload(bytes.data(), bytes.size(), buffer_->data()).ok());
  }

  static std::vector<std::byte> Encode(DType dtype, const std::vector<float>& values) {
    std::vector<std::byte> bytes(values.size() * SizeOf(dtype));
    for (size_t i = 0; i < values.size(); ++i) {
      StoreAny(bytes.data(), dtype, static_cast<int64_t>(i), values[i]);
    }
    return bytes;
  }

  Matrix view() const { return Matrix::Dense(buffer_->data(), dtype_, rows_, cols_); }
  std::vector<std::byte> Bytes() const {
    std::vector<std::byte> bytes(buffer_->size());
    EXPECT_TRUE(backend_.Download(buffer_->data(), bytes.size(), bytes.data()).ok());
    return bytes;
  }
  std::vector<float> Values() const {
    const std::vector<std::byte> bytes = Bytes();
    std::vector<float> values(static_cast<size_t>(rows_ * cols_));
    for (size_t i = 0; i < values.size(); ++i) {
      values[i] = LoadElement(bytes.data(), dtype_, static_cast<int64_t>(i));
    }
    return values;
  }

 private:
  Backend& backend_;
  DType dtype_;
  int64_t rows_;
  int64_t cols_;
  std::unique_ptr<Buffer> buffer_;
};

// The same on the host in fp32, for the reference.
inline Matrix HostMatrix(std::vector<float>& values, int64_t cols) {
  return Matrix::Dense(values.data(), DType::kF32, static_cast<int64_t>(values.size()) / cols,
                       cols);
}

// |actual - expected| <= relative * max(|expected|, floor).
inline void ExpectValues(const std::vector<float>& actual, const std::vector<float>& expected,
                         double relative, double floor) {
  ASSERT_EQ(actual.size(), expected.size());
  for (size_t i = 0; i < actual.size(); ++i) {
    const double bound = relative * std::max<double>(std::abs(expected[i]), floor);
    ASSERT_NEAR(actual[i], expected[i], bound) << "element " << i;
  }
}

inline std::unique_ptr<Backend> MakeCuda(DType dtype) {
  auto backend = MakeBackend({.device = Device::kCuda, .compute_dtype = dtype});
  EXPECT_TRUE(backend.ok()) << backend.status();
  return backend.ok() ? std::move(backend).value() : nullptr;
}
inline std::unique_ptr<Backend> MakeReference() {
  return MakeBackend({.device = Device::kReference, .isa = "exact", .compute_dtype = DType::kF32})
      .value();
}

// Compares a device that computes in the parameter with the scalar reference.
class CudaAndReferenceTest : public testing::TestWithParam<DType> {
 protected:
  void SetUp() override {
    backend_ = MakeCuda(dtype());
    ASSERT_NE(backend_, nullptr);
    reference_ = MakeReference();
  }
  DType dtype() const { return GetParam(); }

  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> reference_;
};

inline std::string DTypeName(const testing::TestParamInfo<DType>& info) {
  return std::string(Name(info.param));
}

}  // namespace baton::kernels
