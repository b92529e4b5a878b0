#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "kernels/backend.h"
#include "kernels/cuda/cta/quantized_data.h"
#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/gemm/quantized_image.h"

namespace baton::kernels::cuda {

// A projection on the device: row-major [out, in], which cuBLASLt takes as its transposed operand.
// Its elements are in the compute dtype, or in e4m3 with one number per row that the row was
// divided by.
class DeviceWeight final : public PackedWeight {
 public:
  // `scales` [out] goes with elements of e4m3, and so does `input_scale`, which inputs are divided
  // by; 0 for a number of each row's own.
  DeviceWeight(int64_t out, int64_t in, std::unique_ptr<DeviceMemory> elements,
               std::unique_ptr<DeviceMemory> scales = nullptr, float input_scale = 0)
      : out_(out),
        in_(in),
        elements_(std::move(elements)),
        scales_(std::move(scales)),
        input_scale_(input_scale) {}

  int64_t out() const override { return out_; }
  int64_t in() const override { return in_; }
  size_t bytes() const override {
    return elements_->size() + (scales_ != nullptr ? scales_->size() : 0);
  }
  const void* data() const { return elements_->data(); }
  bool fp8() const { return scales_ != nullptr; }
  const float* scales() const {
    return fp8() ? static_cast<const float*>(scales_->data()) : nullptr;
  }
  float input_scale() const { return input_scale_; }

 private:
  const int64_t out_;
  const int64_t in_;
  const std::unique_ptr<DeviceMemory> elements_;
  const std::unique_ptr<DeviceMemory> scales_;
  const float input_scale_;
};

// A projection of small integers on the device.
class IntegerWeight final : public PackedWeight {
 public:
  IntegerWeight(const QuantizedPlaces& places, std::unique_ptr<DeviceMemory> memory)
      : view_(places.At(memory->data())), memory_(std::move(memory)) {}

  int64_t out() const override { return view_.out; }
  int64_t in() const override { return view_.in; }
  size_t bytes() const override { return memory_->size(); }
  bool quantized() const override { return true; }
  const QuantizedView& view() const { return view_; }

 private:
  const QuantizedView view_;
  const std::unique_ptr<DeviceMemory> memory_;
};

// A vector as fp32 and once more rounded to the compute dtype, because cuBLASLt adds a bias only in
// the dtype of its output.
class DeviceVector final : public Buffer {
 public:
  DeviceVector(std::unique_ptr<DeviceMemory> floats, std::unique_ptr<DeviceMemory> rounded)
      : floats_(std::move(floats)), rounded_(std::move(rounded)) {}
  void* data() const override { return floats_->data(); }
  size_t size() const override { return floats_->size(); }
  const void* in(DType dtype) const {
    return dtype == DType::kF32 ? floats_->data() : rounded_->data();
  }

 private:
  const std::unique_ptr<DeviceMemory> floats_;
  const std::unique_ptr<DeviceMemory> rounded_;
};

// The weight as this backend made it: no other weights reach it. Which of the two it is says
// weight.quantized().
inline const DeviceWeight& OnDevice(const PackedWeight& weight) {
  return static_cast<const DeviceWeight&>(weight);
}
inline const IntegerWeight& IntegersOnDevice(const PackedWeight& weight) {
  return static_cast<const IntegerWeight&>(weight);
}

// The fp32 numbers of a vector that may be absent.
inline const float* Floats(const Buffer* buffer) {
  return buffer != nullptr ? static_cast<const float*>(buffer->data()) : nullptr;
}

}  // namespace baton::kernels::cuda
