// Rope, store and paged attention of the CUDA backend against the scalar reference: head sizes that
// FlashInfer serves and those that the plain kernel does, whole prompts, chunks, decode steps and
// mixes of them, windows, q/k norm, padding, and captured steps. Tolerance: see Slack.
#include <map>
#include <vector>

#include "kernels/float_convert.h"
#include "tests/kernels/cuda/device_fixture.h"
#include "tests/kernels/paged_fixture.h"

namespace baton::kernels {
namespace {

// Of the size of a row of results, see Distance. K, V, partial results and the result are each
// rounded to the dtype once.
double Slack(DType dtype) { return 4 * DeviceTolerance(dtype); }

// Sequences run through both backends step by step.
class DeviceRig {
 public:
  // A cache of codes is kFp8.
  DeviceRig(DType dtype, AttentionShape shape, std::vector<int> lengths, bool prepare,
            bool codes = false)
      : dtype_(dtype),
        shape_(shape),
        layout_(LayoutOf(shape, codes ? DType::kFp8 : dtype)),
        backend_(MakeCuda(dtype)),
        reference_(MakeReference()),
        tables_(lengths.size()) {
    int32_t blocks = 3;
    for (size_t i = 0; i < lengths.size(); ++i) {
      for (int at = 0; at < lengths[i]; at += 16) tables_[i].push_back(blocks += 1);
      qkv_.push_back(ExactValues(lengths[i] * width(), 17 * static_cast<uint32_t>(i + 1)));
    }
    num_blocks_ = blocks + 2;
    for (int i = 0; i < shape.head_dim / 2; ++i) {
      inv_freq_.push_back(std::pow(10000.0f, -2.0f * static_cast<float>(i) / shape.head_dim));
    }
    KvLayout floats = layout_;
    if (!codes) floats.dtype = DType::kF32;
    host_arena_.assign(floats.block_bytes() * static_cast<size_t>(num_blocks_) / 4, 0);
    host_kv_ = {reinterpret_cast<std::byte*>(host_arena_.data()), floats, num_blocks_};
    arena_ = backend_->Allocate(layout_.block_bytes() * static_cast<size_t>(num_blocks_)).value();
    // What nobody wrote is NaN and must not show.
    const std::vector<uint8_t> poison(arena_->size(), 0xff);
    EXPECT_TRUE(backend_->Upload(poison.data(), poison.size(), arena_->data()).ok());
    device_kv_ = {static_cast<std::byte*>(arena_->data()), layout_, num_blocks_};
    if (!prepare) return;
    EXPECT_TRUE(backend_
                    ->Prepare({.attentions = {&shape_, 1},
                               .rope = RopeShape{inv_freq_, 1.0f},
                               .max_tokens = 2048,
                               .max_samples = 64})
                    .ok());
  }

  void UseNorm() {
    const std::vector<float> q = ExactValues(shape_.head_dim, 71);
    const std::vector<float> k = ExactValues(shape_.head_dim, 72);
    for (const auto& [backend, norms] :
         {std::pair{backend_.get(), &device_norms_}, std::pair{reference_.get(), &host_norms_}}) {
      norms->push_back(backend->UploadVector({q.data(), DType::kF32, 1, shape_.head_dim}).value());
      norms->push_back(backend->UploadVector({k.data(), DType::kF32, 1, shape_.head_dim}).value());
    }
  }

  // Lowers every score by about `by`: the last elements of a head, which are hardly rotated, become
  // equal in all queries, and equal below 0 in all keys.
  void LowerScores(float by) {
    constexpr int kElements = 8;
    constexpr float kKey = 1.875F;
    const float query =
        std::round(by * std::sqrt(static_cast<float>(shape_.head_dim)) / (kElements * kKey));
    for (std::vector<float>& rows : qkv_) {
      for (size_t i = 0; i < rows.size(); ++i) {
        const auto in_row = static_cast<int64_t>(i) % width();
        if (in_row % shape_.head_dim < shape_.head_dim - kElements) continue;
        const int64_t head = in_row / shape_.head_dim;
        if (head < shape_.q_heads + shape_.kv_heads)
          rows[i] = head < shape_.q_heads ? query : -kKey;
      }
    }
  }

  // Runs one step over `pieces` and compares it row by row. With a `program` other than 0 it runs
  // by RunStep.
  void Step(const std::vector<Piece>& pieces, uint64_t program = 0) {
    std::vector<int32_t> positions;
    std::vector<float> input;
    std::vector<StepLayout::Sequence> sequences;
    for (const Piece& piece : pieces) {
      sequences.push_back({static_cast<int32_t>(positions.size()), piece.count,
                           piece.begin + piece.count, tables_[piece.sequence]});
      for (int i = 0; i < piece.count; ++i) positions.push_back(piece.begin + i);
      const auto from = qkv_[piece.sequence].begin() + piece.begin * width();
      input.insert(input.end(), from, from + piece.count * width());
    }
    const std::vector<int32_t> tokens(positions.size(), 0);
    std::vector<int32_t> samples;
    if (program != 0) {
      for (size_t i = 0; i < positions.size(); ++i) samples.push_back(static_cast<int32_t>(i));
    }
    const StepLayout layout = {
        .tokens = tokens, .positions = positions, .sequences = sequences, .sample_rows = samples};
    const auto begun = backend_->BeginStep(layout, device_kv_);
    ASSERT_TRUE(begun.ok()) << begun.status();
    ASSERT_GE(begun->tokens, static_cast<int64_t>(positions.size()));
    std::vector<float> padded = input;
    padded.resize(static_cast<size_t>(begun->tokens * width()), 1.0f);
    if (program == 0) buffers_.clear();
    auto& [qkv, out] = BuffersFor(begun->tokens, padded);
    const std::vector<std::byte> bytes = DeviceMatrix::Encode(dtype_, padded);
    ASSERT_TRUE(backend_->Upload(bytes.data(), bytes.size(), qkv->view().data).ok());
    const RopeShape rope = {inv_freq_, 1.0f};
    const auto operations = [&, qkv_view = qkv->view(), out_view = out->view()] {
      backend_->RopeAndStoreKv(qkv_view, kLayer, shape_, rope, Norm(device_norms_));
      backend_->PagedAttention(qkv_view, kLayer, shape_, out_view);
    };
    if (program == 0) {
      operations();
    } else {
      ASSERT_TRUE(backend_->RunStep(program, operations).ok());
    }
    ASSERT_TRUE(backend_->EndStep().ok());

    ASSERT_TRUE(reference_->BeginStep(layout, host_kv_).ok());
    const Matrix host = HostMatrix(input, width());
    reference_->RopeAndStoreKv(host, kLayer, shape_, rope, Norm(host_norms_));
    if (layout_.quantized()) {
      TakeCodes();
    } else {
      RoundCache();
    }
    std::vector<float> expected(positions.size() * static_cast<size_t>(out_width()));
    RoundAll(input);
    reference_->PagedAttention(host, kLayer, shape_, HostMatrix(expected, out_width()));
    std::vector<float> actual = out->Values();
    actual.resize(expected.size());
    EXPECT_LE(Distance(actual, expected, out_width(), Slack(dtype_)), 1);
  }

  // Blocks as the reference wrote them; what neither wrote is untouched on the device.
  void CompareCache() {
    std::vector<std::byte> bytes(arena_->size());
    ASSERT_TRUE(backend_->Download(arena_->data(), bytes.size(), bytes.data()).ok());
    for (size_t i = 0; i < host_arena_.size(); ++i) {
      const float value = LoadElement(bytes.data(), dtype_, static_cast<int64_t>(i));
      if (std::isnan(value)) {
        ASSERT_EQ(host_arena_[i], 0) << "element " << i << " was not written";
      } else {
        const double bound = DeviceTolerance(dtype_) * std::max(std::abs(host_arena_[i]), 1.0f);
        ASSERT_NEAR(value, host_arena_[i], bound) << "element " << i;
      }
    }
  }

  static constexpr int kLayer = 1;

 private:
  using Buffers = std::pair<std::unique_ptr<DeviceMatrix>, std::unique_ptr<DeviceMatrix>>;

  int64_t width() const { return int64_t{shape_.q_heads + 2 * shape_.kv_heads} * shape_.head_dim; }
  int64_t out_width() const { return int64_t{shape_.q_heads} * shape_.head_dim; }
  QkNorm Norm(const std::vector<std::unique_ptr<Buffer>>& norms) const {
    if (norms.empty()) return {};
    return {norms[0].get(), norms[1].get(), 1e-6f};
  }
  // The same memory for every step of as many rows, as a captured step needs.
  Buffers& BuffersFor(int64_t rows, const std::vector<float>& values) {
    Buffers& buffers = buffers_[rows];
    if (buffers.first == nullptr) {
      buffers.first = std::make_unique<DeviceMatrix>(*backend_, dtype_, rows, width(), values);
      buffers.second = std::make_unique<DeviceMatrix>(*backend_, dtype_, rows, out_width());
    }
    return buffers;
  }
  // The reference computes in fp32; the device's q, K and V are rounded once.
  float Round(float value) const {
    if (dtype_ == DType::kF16) return static_cast<float>(static_cast<_Float16>(value));
    return RoundTo(dtype_, value);
  }
  void RoundAll(std::vector<float>& values) {
    for (float& value : values) value = Round(value);
  }
  void RoundCache() { RoundAll(host_arena_); }
  // Compares the codes that both have stored, which may differ by one where a rotation falls on the
  // other side of a tie; from then on the reference reads those of the device.
  void TakeCodes() {
    std::vector<std::byte> bytes(arena_->size());
    ASSERT_TRUE(backend_->Download(arena_->data(), bytes.size(), bytes.data()).ok());
    auto* const host = reinterpret_cast<std::byte*>(host_arena_.data());
    for (size_t i = 0; i < bytes.size(); ++i) {
      const float value = FloatFromE4m3(static_cast<uint8_t>(bytes[i]));
      const float expected = FloatFromE4m3(static_cast<uint8_t>(host[i]));
      if (std::isnan(value)) {
        ASSERT_EQ(expected, 0) << "code " << i << " was not written";
        continue;
      }
      ASSERT_NEAR(value, expected, std::max(std::abs(expected) / 8, 0x1.0p-9f)) << "code " << i;
      host[i] = bytes[i];
    }
  }

  const DType dtype_;
  const AttentionShape shape_;
  const KvLayout layout_;
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Backend> reference_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<std::vector<float>> qkv_;
  std::vector<float> inv_freq_;
  std::vector<float> host_arena_;
  PagedKv host_kv_;
  std::unique_ptr<Buffer> arena_;
  PagedKv device_kv_;
  int32_t num_blocks_ = 0;
  std::vector<std::unique_ptr<Buffer>> device_norms_, host_norms_;
  std::map<int64_t, Buffers> buffers_;
};

class CudaAttentionTest : public testing::TestWithParam<DType> {
 protected:
  // A rig cannot do without a device, and would end the program with the results of all its tests.
  void SetUp() override {
    static const auto status = MakeBackend({.device = Device::kCuda}).status();
    ASSERT_TRUE(status.ok()) << status;
  }
};

TEST_P(CudaAttentionTest, WholePromptsChunksAndDecodeStepsEqualReference) {
  for (const auto& [q_heads, kv_heads, head_dim] :
       {std::tuple(8, 2, 64), std::tuple(4, 4, 128), std::tuple(14, 2, 64), std::tuple(8, 1, 128),
        std::tuple(4, 2, 80), std::tuple(2, 1, 32), std::tuple(9, 9, 64)}) {
    SCOPED_TRACE(testing::Message() << q_heads << " over " << kv_heads << " of " << head_dim);
    DeviceRig rig(GetParam(), ShapeOf(q_heads, kv_heads, head_dim), {400, 33, 1, 700}, true);
    rig.Step({{0, 0, 300}, {1, 0, 20}});
    rig.Step({{2, 0, 1}, {0, 300, 90}, {1, 20, 1}, {3, 0, 260}});
    rig.Step({{0, 390, 1}, {1, 21, 1}, {3, 260, 1}});
    rig.Step({{3, 261, 400}});
    rig.Step({{0, 391, 1}, {3, 661, 2}, {1, 22, 5}});
    rig.CompareCache();
  }
}

TEST_P(CudaAttentionTest, WindowsLimitWhatIsSeen) {
  for (const int window : {1, 16, 100, 300}) {
    SCOPED_TRACE(window);
    DeviceRig rig(GetParam(), ShapeOf(8, 2, 64, window), {600, 40}, true);
    rig.Step({{0, 0, 500}, {1, 0, 30}});
    rig.Step({{0, 500, 1}, {1, 30, 1}});
    rig.Step({{0, 501, 80}, {1, 31, 2}});
  }
}

TEST_P(CudaAttentionTest, QAndKAreNormalised) {
  DeviceRig rig(GetParam(), ShapeOf(4, 2, 128), {50}, true);
  rig.UseNorm();
  rig.Step({{0, 0, 40}});
  rig.Step({{0, 40, 1}});
  rig.CompareCache();
}

TEST_P(CudaAttentionTest, ThePlainKernelEqualsReferenceForEveryHeadSize) {
  for (const int head_dim : {8, 64, 96, 128, 256}) {
    SCOPED_TRACE(head_dim);
    DeviceRig rig(GetParam(), ShapeOf(4, 2, head_dim), {70}, false);
    rig.Step({{0, 0, 60}});
    rig.Step({{0, 60, 1}});
  }
}

// By FlashInfer for heads of 128, by the plain kernel for others and in float32.
TEST_P(CudaAttentionTest, CodesOfACacheEqualReference) {
  for (const auto& [head_dim, window] :
       {std::pair(128, 0), std::pair(128, 100), std::pair(64, 0), std::pair(80, 0)}) {
    for (const auto& [k_scale, v_scale] : {std::pair(1.0F, 1.0F), std::pair(0.02F, 3.0F)}) {
      SCOPED_TRACE(testing::Message() << head_dim << " window " << window << " k " << k_scale);
      AttentionShape shape = ShapeOf(8, 2, head_dim, window);
      shape.k_scale = k_scale;
      shape.v_scale = v_scale;
      DeviceRig rig(GetParam(), shape, {400, 33, 700}, true, /*codes=*/true);
      rig.Step({{0, 0, 300}, {1, 0, 20}});
      rig.Step({{0, 300, 90}, {1, 20, 1}, {2, 0, 260}});
      rig.Step({{0, 390, 1}, {1, 21, 1}, {2, 260, 1}});
      rig.Step({{2, 261, 400}});
    }
  }
}

// Codes of keys are 200 times as large as keys here, so the products of queries and codes are below
// what FlashInfer takes for a masked score, -5e4. A row without one above would be zeros.
TEST_P(CudaAttentionTest, LowScoresOfSmallKeyScalesAreNotTakenForMasked) {
  for (const int head_dim : {128, 64}) {
    SCOPED_TRACE(head_dim);
    AttentionShape shape = ShapeOf(8, 2, head_dim);
    shape.k_scale = 0.005F;
    DeviceRig rig(GetParam(), shape, {300, 33, 200}, true, /*codes=*/true);
    rig.LowerScores(30);
    rig.Step({{0, 0, 260}, {1, 0, 20}});
    rig.Step({{0, 260, 1}, {1, 20, 1}, {2, 0, 150}});
    for (int step = 0; step < 3; ++step) {
      rig.Step({{0, 261 + step, 1}, {1, 21 + step, 1}, {2, 150 + step, 1}}, 7);
    }
  }
}

TEST_P(CudaAttentionTest, CapturedDecodeStepsEqualReferenceWithPadding) {
  DeviceRig rig(GetParam(), ShapeOf(8, 2, 64), {300, 40, 40}, true);
  rig.Step({{0, 0, 290}, {1, 0, 20}, {2, 0, 10}});
  for (int step = 0; step < 6; ++step) {
    rig.Step({{0, 290 + step, 1}, {1, 20 + step, 1}, {2, 10 + step, 1}}, 7);
  }
  rig.CompareCache();
}

INSTANTIATE_TEST_SUITE_P(Cuda, CudaAttentionTest,
                         testing::Values(DType::kF32, DType::kBF16, DType::kF16), DTypeName);

}  // namespace
}  // namespace baton::kernels
