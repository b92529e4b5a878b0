// A product reads and writes nothing beyond its matrices: each ends where a page begins that nobody
// may touch, or begins where one ends.
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "tests/kernels/kernel_fixture.h"
#include "tests/kernels/quantized_fixture.h"

namespace baton::kernels {
namespace {

// Memory between two pages that nobody may touch.
class FencedMatrix {
 public:
  enum class At { kBegin, kEnd };

  FencedMatrix(const TestMatrix& from, At at) : dtype_(from.dtype()), from_(&from) {
    const auto bytes = static_cast<size_t>(from.row_count() * from.cols()) * SizeOf(dtype_);
    const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
    const size_t inner = (bytes + page - 1) / page * page;
    size_ = inner + 2 * page;
    memory_ = static_cast<std::byte*>(
        mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
    BATON_CHECK(memory_ != MAP_FAILED);
    BATON_CHECK(mprotect(memory_ + page, inner, PROT_READ | PROT_WRITE) == 0);
    data_ = memory_ + page + (at == At::kEnd ? inner - bytes : 0);
    std::memcpy(data_, from.data(), bytes);
  }
  FencedMatrix(const FencedMatrix&) = delete;
  FencedMatrix& operator=(const FencedMatrix&) = delete;
  ~FencedMatrix() { munmap(memory_, size_); }

  Matrix view() const { return Matrix::Dense(data_, dtype_, from_->row_count(), from_->cols()); }
  HostTensor tensor() const { return {data_, dtype_, from_->row_count(), from_->cols()}; }

 private:
  DType dtype_;
  const TestMatrix* from_;
  size_t size_ = 0;
  std::byte* memory_ = nullptr;
  std::byte* data_ = nullptr;
};

class MatMulMemoryTest : public testing::TestWithParam<Way> {
 protected:
  // Runs the product of rows and result that end, then begin, beside a fence.
  void ExpectWithinFences(Backend& backend, const PackedWeight& weight, const TestMatrix& x,
                          TestMatrix& expected) {
    const auto bytes = static_cast<size_t>(expected.row_count() * expected.cols()) * sizeof(float);
    for (const auto at : {FencedMatrix::At::kBegin, FencedMatrix::At::kEnd}) {
      const FencedMatrix fenced_x(x, at);
      const FencedMatrix y(expected, at);
      const Matrix result = y.view();
      std::memset(result.data, 0, bytes);
      backend.MatMul(weight, fenced_x.view(), result, {});
      EXPECT_EQ(std::memcmp(result.data, expected.data(), bytes), 0);
    }
  }
};

TEST_P(MatMulMemoryTest, NothingBeyondTheMatricesIsTouched) {
  const auto backend = Make(GetParam());
  const DType dtype = GetParam().dtype;
  for (const auto& [out, in] : {std::pair{33, 77}, std::pair{48, 96}, std::pair{70, 64}}) {
    const TestMatrix weight = TestMatrix::Random(dtype, out, in, 1, 0.2f);
    for (const int64_t rows : {1, 2, 15, 16, 17, 31, 33, 50}) {
      SCOPED_TRACE(testing::Message() << rows << " rows, " << out << " x " << in);
      TestMatrix x = TestMatrix::Random(dtype, rows, in, 2);
      TestMatrix expected(DType::kF32, rows, out);
      backend->MatMul(**backend->Pack(weight.tensor(), {}), x.view(), expected.view(), {});
      for (const auto at : {FencedMatrix::At::kBegin, FencedMatrix::At::kEnd}) {
        const FencedMatrix fenced_weight(weight, at);
        ExpectWithinFences(*backend, **backend->Pack(fenced_weight.tensor(), {}), x, expected);
      }
    }
  }
}

TEST_P(MatMulMemoryTest, NorByWeightsOfIntegers) {
  const auto backend = Make(GetParam());
  for (const int bits : {4, 8}) {
    for (const int64_t group : {16, 32, 128}) {
      const QuantizedShape shape = {
          .bits = bits, .rows = 33, .cols = 77, .group = group, .zero_points = group == 32};
      const RandomQuantized weight(shape);
      TestMatrix codes(DType::kInt8, shape.rows, shape.cols);
      std::memcpy(codes.data(), weight.tensor().codes, static_cast<size_t>(33 * shape.cols));
      TestMatrix scales(DType::kF32, shape.rows, weight.tensor().groups());
      std::memcpy(scales.data(), weight.tensor().scales,
                  static_cast<size_t>(33 * scales.cols()) * sizeof(float));
      const auto plain = backend->PackQuantized(weight.tensor(), {});
      for (const auto at : {FencedMatrix::At::kBegin, FencedMatrix::At::kEnd}) {
        const FencedMatrix fenced_codes(codes, at);
        const FencedMatrix fenced_scales(scales, at);
        QuantizedTensor fenced = weight.tensor();
        fenced.codes = static_cast<const int8_t*>(fenced_codes.view().data);
        fenced.scales = static_cast<const float*>(fenced_scales.view().data);
        const auto packed = backend->PackQuantized(fenced, {});
        ASSERT_TRUE(packed.ok()) << packed.status();
        for (const int64_t rows : {1, 2, 5, 12, 13, 31}) {
          SCOPED_TRACE(testing::Message()
                       << rows << " rows, " << bits << " bits, groups of " << group);
          TestMatrix x = TestMatrix::Random(GetParam().dtype, rows, shape.cols, 2);
          TestMatrix expected(DType::kF32, rows, shape.rows);
          backend->MatMul(**plain, x.view(), expected.view(), {});
          ExpectWithinFences(*backend, **packed, x, expected);
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, MatMulMemoryTest, testing::ValuesIn(CpuWays()), WayName);

}  // namespace
}  // namespace baton::kernels
