#pragma once

#include <algorithm>
#include <numeric>
#include <vector>

#include "tests/kernels/kernel_fixture.h"

namespace baton::kernels {

// A KV arena in which sequences own blocks in scattered order; what nobody wrote is NaN.
class TestKv {
 public:
  TestKv(KvLayout layout, int32_t blocks, uint32_t seed)
      : bytes_(layout.block_bytes() * static_cast<size_t>(blocks), std::byte{0xff}), free_(blocks) {
    kv_ = {.arena = bytes_.data(), .layout = layout, .num_blocks = blocks};
    std::iota(free_.begin(), free_.end(), 0);
    std::mt19937 random(seed);
    std::shuffle(free_.begin(), free_.end(), random);
  }

  // Grows the block table to hold `context` tokens.
  void Grow(std::vector<int32_t>& table, int context) {
    while (static_cast<int>(table.size()) * kv_.layout.block_size < context) {
      ASSERT_FALSE(free_.empty());
      table.push_back(free_.back());
      free_.pop_back();
    }
  }

  const PagedKv& kv() const { return kv_; }
  void CopyBytesOf(const TestKv& other) { std::ranges::copy(other.bytes_, bytes_.begin()); }

 private:
  std::vector<std::byte> bytes_;
  std::vector<int32_t> free_;
  PagedKv kv_;
};

// One piece of work of a step: `count` tokens of a sequence from position `begin`.
struct Piece {
  int sequence = 0;
  int begin = 0;
  int count = 0;
};

// The activations of a few whole sequences, run through rope and attention step by step in any
// cutting. Positions that a piece names must follow those already done.
class AttentionRig {
 public:
  AttentionRig(Backend& backend, AttentionShape shape, KvLayout layout,
               const std::vector<int>& lengths, uint32_t seed)
      : backend_(backend),
        shape_(shape),
        kv_(layout, BlocksFor(layout, lengths), seed),
        tables_(lengths.size()) {
    for (int i = 0; i < shape.head_dim / 2; ++i) {
      inv_freq_.push_back(
          std::pow(10000.0f, -2.0f * static_cast<float>(i) / static_cast<float>(shape.head_dim)));
    }
    const int64_t width = int64_t{shape.q_heads + 2 * shape.kv_heads} * shape.head_dim;
    const DType dtype = backend.info().compute_dtype;
    for (size_t i = 0; i < lengths.size(); ++i) {
      qkv_.push_back(TestMatrix::Random(dtype, lengths[i], width, seed + 17 * (i + 1)));
      out_.emplace_back(dtype, lengths[i], int64_t{shape.q_heads} * shape.head_dim);
    }
  }

  void UseNorm(const Buffer* q, const Buffer* k) { norm_ = {q, k, 1e-6f}; }

  // Runs one step over `pieces`. Attention reads what it stored or, where `stored` has run the same
  // steps and this one, what that stored.
  void Step(const std::vector<Piece>& pieces, const AttentionRig* stored = nullptr) {
    const int64_t total =
        std::accumulate(pieces.begin(), pieces.end(), int64_t{0},
                        [](int64_t sum, const Piece& p) { return sum + p.count; });
    const DType dtype = backend_.info().compute_dtype;
    TestMatrix qkv(dtype, total, qkv_[0].cols());
    TestMatrix out(dtype, total, out_[0].cols());
    std::vector<int32_t> tokens(total, 0);
    std::vector<int32_t> positions;
    std::vector<StepLayout::Sequence> sequences;
    for (const Piece& piece : pieces) {
      std::vector<int32_t>& table = tables_[piece.sequence];
      kv_.Grow(table, piece.begin + piece.count);
      const auto first = static_cast<int32_t>(positions.size());
      for (int i = 0; i < piece.count; ++i) {
        Copy(qkv_[piece.sequence], piece.begin + i, qkv, first + i);
        positions.push_back(piece.begin + i);
      }
      sequences.push_back({first, piece.count, piece.begin + piece.count, table});
    }
    const absl::StatusOr<StepRows> begun = backend_.BeginStep(
        {.tokens = tokens, .positions = positions, .sequences = sequences}, kv_.kv());
    ASSERT_TRUE(begun.ok()) << begun.status();
    backend_.RopeAndStoreKv(qkv.view(), kLayer, shape_, {inv_freq_, 1.0f}, norm_);
    if (stored != nullptr) kv_.CopyBytesOf(stored->kv_);
    backend_.PagedAttention(qkv.view(), kLayer, shape_, out.view());
    ASSERT_TRUE(backend_.EndStep().ok());
    int64_t row = 0;
    for (const Piece& piece : pieces) {
      for (int i = 0; i < piece.count; ++i) Copy(out, row++, out_[piece.sequence], piece.begin + i);
    }
  }

  TestMatrix& qkv(int sequence) { return qkv_[sequence]; }
  const TestMatrix& out(int sequence) const { return out_[sequence]; }
  const PagedKv& kv() const { return kv_.kv(); }
  const std::vector<int32_t>& table(int sequence) const { return tables_[sequence]; }
  // The bytes of K (plane 0) or V (1) of one token and head in the cache.
  std::span<const std::byte> Row(int sequence, int plane, int head, int token) const {
    const PagedKv& kv = kv_.kv();
    const int size = kv.layout.block_size;
    const std::byte* block = kv.block(tables_[sequence][token / size]);
    return {block + kv.offset(kLayer, plane, head, token % size), kv.layout.row_bytes()};
  }
  static constexpr int kLayer = 1;

 private:
  static int32_t BlocksFor(const KvLayout& layout, const std::vector<int>& lengths) {
    int32_t blocks = 2;
    for (const int length : lengths) blocks += (length + layout.block_size - 1) / layout.block_size;
    return blocks;
  }
  static void Copy(const TestMatrix& from, int64_t from_row, TestMatrix& to, int64_t to_row) {
    const std::string bits = from.bits(from_row);
    std::memcpy(to.view().row(to_row), bits.data(), bits.size());
  }

  Backend& backend_;
  AttentionShape shape_;
  TestKv kv_;
  std::vector<std::vector<int32_t>> tables_;
  std::vector<float> inv_freq_;
  std::vector<TestMatrix> qkv_;
  std::vector<TestMatrix> out_;
  QkNorm norm_;
};

inline AttentionShape ShapeOf(int q_heads, int kv_heads, int head_dim, int window = 0) {
  return {.q_heads = q_heads,
          .kv_heads = kv_heads,
          .head_dim = head_dim,
          .sliding_window = window,
          .scale = 1.0f / std::sqrt(static_cast<float>(head_dim))};
}

inline KvLayout LayoutOf(const AttentionShape& shape, DType dtype, int block_size = 16) {
  return {.dtype = dtype,
          .block_size = block_size,
          .layers = 2,
          .kv_heads = shape.kv_heads,
          .head_dim = shape.head_dim};
}

}  // namespace baton::kernels
