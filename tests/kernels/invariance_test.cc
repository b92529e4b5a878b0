// A row has the same bits whatever else is computed with it, and on however many threads; so has a
// column, whichever rank computes it.
#include <string>
#include <utility>
#include <vector>

#include "kernels/column_share.h"
#include "tests/kernels/paged_fixture.h"

namespace baton::kernels {
namespace {

class InvarianceTest : public testing::TestWithParam<Way> {
 protected:
  DType dtype() const { return GetParam().dtype; }
  std::unique_ptr<Backend> WithThreads(int threads) const {
    Way way = GetParam();
    way.threads = threads;
    return Make(way);
  }
};

TEST_P(InvarianceTest, MatMulRowsDoNotDependOnTheOtherRows) {
  struct Case {
    int64_t out;
    int64_t in;
    DType out_dtype;
    MatMulEpilogue epilogue;
  };
  const auto alone_backend = WithThreads(1);
  const auto batch_backend = WithThreads(2);
  const TestMatrix bias_values = TestMatrix::Random(DType::kF32, 1, 512, 2);
  const auto bias = alone_backend->UploadVector(bias_values.tensor());
  for (const Case& c : {Case{512, 256, dtype(), {}}, Case{200, 1000, DType::kF32, {}},
                        Case{512, 256, dtype(), {bias->get(), false}},
                        Case{256, 1100, DType::kF32, {nullptr, true}}, Case{33, 77, dtype(), {}}}) {
    SCOPED_TRACE(testing::Message()
                 << c.out << " x " << c.in << " accumulate " << c.epilogue.accumulate);
    constexpr int64_t kRows = 600;
    const TestMatrix weight = TestMatrix::Random(dtype(), c.out, c.in, 1, 0.2f);
    TestMatrix x = TestMatrix::Random(dtype(), kRows, c.in, 3);
    const TestMatrix start = TestMatrix::Random(c.out_dtype, kRows, c.out, 4);
    const auto alone_weight = alone_backend->Pack(weight.tensor(), {});
    const auto batch_weight = batch_backend->Pack(weight.tensor(), {});
    TestMatrix alone = start.Copy();
    for (int64_t row = 0; row < kRows; ++row) {
      alone_backend->MatMul(**alone_weight, x.rows(row, 1), alone.rows(row, 1), c.epilogue);
    }
    for (const int64_t count : {2,  3,  4,  5,  6,  7,  8,   15,  16,  17,  31,  32,  33, 48,
                                63, 64, 65, 79, 96, 97, 100, 128, 255, 256, 300, 512, 600}) {
      TestMatrix batch = start.Copy();
      // Off the start, so that a row's place in the batch changes too.
      const int64_t first = std::min<int64_t>(kRows - count, 5);
      batch_backend->MatMul(**batch_weight, x.rows(first, count), batch.rows(first, count),
                            c.epilogue);
      for (int64_t row = first; row < first + count; ++row) {
        ASSERT_EQ(batch.bits(row), alone.bits(row)) << count << " rows, row " << row;
      }
    }
  }
}

// More threads than panels of the weight is where a library changes its mind about layouts.
TEST_P(InvarianceTest, MatMulRowsDoNotDependOnTheNumberOfThreads) {
  constexpr int64_t kOut = 192;
  constexpr int64_t kIn = 700;
  const TestMatrix weight = TestMatrix::Random(dtype(), kOut, kIn, 1, 0.2f);
  TestMatrix x = TestMatrix::Random(dtype(), 64, kIn, 3);
  std::string expected;
  for (const int threads : {1, 2, 3, 5, 16}) {
    const auto backend = WithThreads(threads);
    const auto packed = backend->Pack(weight.tensor(), {});
    const MatMulUse use{.weight = packed->get(), .out = dtype(), .max_rows = 64};
    ASSERT_TRUE(backend->Prepare({.products = {&use, 1}, .max_tokens = 64}).ok());
    for (const int64_t count : {1, 7, 40, 41, 64}) {
      TestMatrix y(dtype(), count, kOut);
      backend->MatMul(**packed, x.rows(0, count), y.view(), {});
      if (expected.empty()) expected = y.bits(0);
      ASSERT_EQ(y.bits(0), expected) << threads << " threads, " << count << " rows";
    }
  }
}

// Logits, of which each rank computes a share, are those of one rank.
TEST_P(InvarianceTest, MatMulColumnsDoNotDependOnTheRankThatComputesThem) {
  const auto whole = WithThreads(2);
  const auto part = WithThreads(1);
  for (const auto& [cols, in] : {std::pair{2003, 520}, std::pair{258, 64}, std::pair{4096, 1100}}) {
    const TestMatrix weight = TestMatrix::Random(dtype(), cols, in, 1, 0.2f);
    const auto packed = whole->Pack(weight.tensor(), {});
    for (const int64_t rows : {1, 7, 64}) {
      TestMatrix x = TestMatrix::Random(dtype(), rows, in, 3);
      TestMatrix expected(DType::kF32, rows, cols);
      whole->MatMul(**packed, x.view(), expected.view(), {});
      for (const int ranks : {2, 3, 8}) {
        for (int rank = 0; rank < ranks; ++rank) {
          const ColumnShare share = ShareOfColumns(cols, rank, ranks);
          const auto own =
              part->Pack(weight.tensor(), {.out_begin = share.begin, .out_end = share.end});
          TestMatrix y(DType::kF32, rows, share.size());
          part->MatMul(**own, x.view(), y.view(), {});
          for (int64_t row = 0; row < rows; ++row) {
            ASSERT_EQ(y.bits(row),
                      expected.bits(row).substr(static_cast<size_t>(share.begin) * sizeof(float),
                                                static_cast<size_t>(share.size()) * sizeof(float)))
                << cols << " x " << in << ", row " << row << " of " << rows << ", rank " << rank;
          }
        }
      }
    }
  }
}

TEST_P(InvarianceTest, RowwiseOpsDoNotDependOnTheOtherRows) {
  const auto alone = WithThreads(1);
  const auto batch = WithThreads(2);
  constexpr int64_t kRows = 67;
  constexpr int64_t kCols = 1030;
  TestMatrix in = TestMatrix::Random(DType::kF32, kRows, kCols, 1);
  TestMatrix gate_up = TestMatrix::Random(dtype(), kRows, 2 * kCols, 2);
  const TestMatrix weight = TestMatrix::Random(DType::kF32, 1, kCols, 3);
  const auto uploaded = alone->UploadVector(weight.tensor());
  TestMatrix norm_alone(dtype(), kRows, kCols);
  TestMatrix norm_batch(dtype(), kRows, kCols);
  TestMatrix silu_alone(dtype(), kRows, kCols);
  TestMatrix silu_batch(dtype(), kRows, kCols);
  for (int64_t row = 0; row < kRows; ++row) {
    alone->RmsNorm(in.rows(row, 1), **uploaded, 1e-5f, norm_alone.rows(row, 1));
    alone->SiluMul(gate_up.rows(row, 1), silu_alone.rows(row, 1));
  }
  batch->RmsNorm(in.view(), **uploaded, 1e-5f, norm_batch.view());
  batch->SiluMul(gate_up.view(), silu_batch.view());
  for (int64_t row = 0; row < kRows; ++row) {
    ASSERT_EQ(norm_batch.bits(row), norm_alone.bits(row)) << row;
    ASSERT_EQ(silu_batch.bits(row), silu_alone.bits(row)) << row;
  }
}

// Every query's bits, by whatever cutting of the prompt and beside whatever other sequence.
TEST_P(InvarianceTest, AttentionDoesNotDependOnChunksBatchOrThreads) {
  struct Case {
    AttentionShape shape;
    int block_size;
    DType kv;
  };
  const std::vector<int> lengths = {530, 90, 33};
  for (const Case& c :
       {Case{ShapeOf(4, 2, 64), 16, dtype()}, Case{ShapeOf(7, 1, 40), 16, dtype()},
        Case{ShapeOf(4, 4, 64, 100), 16, dtype()}, Case{ShapeOf(4, 1, 32, 21), 8, dtype()},
        Case{ShapeOf(2, 1, 64), 32, dtype()}, Case{ShapeOf(4, 2, 64), 16, DType::kInt8},
        Case{ShapeOf(4, 1, 48, 21), 8, DType::kInt8}, Case{ShapeOf(4, 2, 64), 16, DType::kFp8}}) {
    SCOPED_TRACE(testing::Message()
                 << c.shape.q_heads << "/" << c.shape.kv_heads << " window "
                 << c.shape.sliding_window << " block " << c.block_size << " kv " << Name(c.kv));
    const KvLayout layout = LayoutOf(c.shape, c.kv, c.block_size);
    const auto one_thread = WithThreads(1);
    const auto two_threads = WithThreads(2);

    AttentionRig token_by_token(*one_thread, c.shape, layout, lengths, 5);
    for (int sequence = 0; sequence < 3; ++sequence) {
      for (int i = 0; i < lengths[sequence]; ++i) token_by_token.Step({{sequence, i, 1}});
    }
    AttentionRig whole(*two_threads, c.shape, layout, lengths, 5);
    whole.Step({{1, 0, 90}, {0, 0, 530}, {2, 0, 33}});
    // More threads than queries and heads: contexts are divided.
    const auto many_threads = WithThreads(5);
    AttentionRig divided(*many_threads, c.shape, layout, lengths, 5);
    divided.Step({{0, 0, 500}});
    for (int i = 500; i < 530; ++i) divided.Step({{0, i, 1}});
    divided.Step({{1, 0, 89}, {2, 0, 33}});
    divided.Step({{1, 89, 1}});
    AttentionRig chunked(*two_threads, c.shape, layout, lengths, 5);
    chunked.Step({{0, 0, 37}, {1, 0, 1}});
    chunked.Step({{1, 1, 88}, {0, 37, 300}});
    chunked.Step({{2, 0, 17}, {0, 337, 192}, {1, 89, 1}});
    chunked.Step({{0, 529, 1}, {2, 17, 16}});

    for (int sequence = 0; sequence < 3; ++sequence) {
      for (int i = 0; i < lengths[sequence]; ++i) {
        const std::string want = token_by_token.out(sequence).bits(i);
        ASSERT_EQ(whole.out(sequence).bits(i), want) << "whole " << sequence << " " << i;
        ASSERT_EQ(chunked.out(sequence).bits(i), want) << "chunked " << sequence << " " << i;
        ASSERT_EQ(divided.out(sequence).bits(i), want) << "divided " << sequence << " " << i;
      }
    }
  }
}

// Nor on how many tokens a block has: those that other sizes divide and those that they do not, one
// token, and more than a part of the softmax.
TEST_P(InvarianceTest, AttentionDoesNotDependOnTheBlockSize) {
  struct Case {
    AttentionShape shape;
    DType kv;
  };
  const std::vector<int> lengths = {700, 90};
  for (const Case& c :
       {Case{ShapeOf(4, 2, 64), dtype()}, Case{ShapeOf(7, 1, 40, 100), dtype()},
        Case{ShapeOf(3, 1, 80, 21), dtype()}, Case{ShapeOf(4, 1, 32, 300), DType::kInt8},
        Case{ShapeOf(2, 2, 48, 21), DType::kFp8}}) {
    SCOPED_TRACE(testing::Message() << c.shape.q_heads << "/" << c.shape.kv_heads << " window "
                                    << c.shape.sliding_window << " kv " << Name(c.kv));
    const auto backend = WithThreads(2);
    const auto many_threads = WithThreads(5);
    AttentionRig usual(*backend, c.shape, LayoutOf(c.shape, c.kv), lengths, 5);
    usual.Step({{0, 0, 700}, {1, 0, 90}});
    for (const int block_size : {1, 5, 8, 20, 24, 32, 48, 128, 255, 257, 300, 512, 1024}) {
      AttentionRig whole(*backend, c.shape, LayoutOf(c.shape, c.kv, block_size), lengths, 5);
      whole.Step({{0, 0, 700}, {1, 0, 90}});
      AttentionRig chunked(*many_threads, c.shape, LayoutOf(c.shape, c.kv, block_size), lengths, 5);
      chunked.Step({{0, 0, 250}, {1, 0, 90}});
      chunked.Step({{0, 250, 269}});
      for (int i = 519; i < 700; ++i) chunked.Step({{0, i, 1}});
      for (int sequence = 0; sequence < 2; ++sequence) {
        for (int i = 0; i < lengths[sequence]; ++i) {
          const std::string want = usual.out(sequence).bits(i);
          ASSERT_EQ(whole.out(sequence).bits(i), want)
              << "blocks of " << block_size << ", whole " << sequence << " " << i;
          ASSERT_EQ(chunked.out(sequence).bits(i), want)
              << "blocks of " << block_size << ", chunked " << sequence << " " << i;
        }
      }
    }
  }
}

// Nor on whether a thread computes several KV heads at once, as it does where a step has many
// sequences.
TEST_P(InvarianceTest, AttentionDoesNotDependOnTheHeadsOfATask) {
  const std::vector<int> lengths = {600, 90, 33, 7, 258, 12, 1, 300};
  for (const AttentionShape& shape : {ShapeOf(8, 4, 40, 100), ShapeOf(4, 4, 64)}) {
    for (const DType kv : {dtype(), DType::kInt8}) {
      if (kv == DType::kInt8 && shape.head_dim % 16 != 0) continue;
      for (const int block_size : {5, 16, 24, 257}) {
        SCOPED_TRACE(testing::Message() << "heads of " << shape.head_dim << " kv " << Name(kv)
                                        << " blocks of " << block_size);
        const KvLayout layout = LayoutOf(shape, kv, block_size);
        const auto backend = WithThreads(1);
        AttentionRig alone(*backend, shape, layout, lengths, 5);
        AttentionRig together(*backend, shape, layout, lengths, 5);
        std::vector<Piece> last;
        for (int sequence = 0; sequence < static_cast<int>(lengths.size()); ++sequence) {
          const int before = lengths[sequence] - 1;
          if (before > 0) {
            for (AttentionRig* rig : {&alone, &together}) rig->Step({{sequence, 0, before}});
          }
          alone.Step({{sequence, before, 1}});
          last.push_back({sequence, before, 1});
        }
        together.Step(last);
        for (const Piece& piece : last) {
          ASSERT_EQ(together.out(piece.sequence).bits(piece.begin),
                    alone.out(piece.sequence).bits(piece.begin))
              << piece.sequence;
        }
      }
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Cpu, InvarianceTest, testing::ValuesIn(CpuWays()), WayName);

}  // namespace
}  // namespace baton::kernels
