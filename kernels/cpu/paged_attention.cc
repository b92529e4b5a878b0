#include "kernels/cpu/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "kernels/attention_split.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/paged_attention.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/paged_attention-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// The positions [begin, end) that a row sees, and its part of the tile that starts at `tile`.
struct Visible {
  int32_t begin = 0;
  int32_t end = 0;
  Visible Within(int32_t tile, int32_t size) const {
    return {std::clamp(begin - tile, 0, size), std::clamp(end - tile, 0, size)};
  }
};

// One task. Its rows are pairs of a query and a head of the group, all heads of a query together.
template <typename Activation, typename Kv>
class AttentionRun {
 public:
  AttentionRun(const AttentionArgs& args, const AttentionTask& task, float* scratch)
      : args_(args),
        task_(task),
        group_(args.shape.q_heads / args.shape.kv_heads),
        rows_(task.queries * group_),
        all_rows_(rows_ * task.kv_heads),
        dim_(args.shape.head_dim),
        row_(static_cast<int64_t>(args.kv.layout.row_bytes() / sizeof(Kv))),
        tile_(args.kv.layout.block_size),
        split_blocks_(AttentionSplitBlocks(tile_)),
        memory_(scratch, all_rows_, dim_, tile_, split_blocks_) {}

  void Run() {
    LoadQueries();
    std::fill_n(memory_.key_scales, memory_.tile_padded, args_.shape.scale);
    if (task_.shared != nullptr) return RunShared(*task_.shared);
    const SplitRange seen = SplitsSeen(task_, args_.shape, tile_);
    for (int32_t split = seen.begin; split < seen.end; ++split) {
      Compute(split);
      Merge(split);
    }
    StoreResults();
  }

 private:
  // `row` is within one KV head.
  Visible SeenBy(int32_t row) const {
    const int32_t position = task_.first_position + row / group_;
    const int32_t window = args_.shape.sliding_window;
    return {window > 0 ? std::max(0, position - window + 1) : 0, position + 1};
  }

  // The column of a row's query head in qkv and out, and the row of its token there.
  int64_t ColumnOf(int32_t row) const {
    return (int64_t{task_.kv_head + row / rows_} * group_ + row % group_) * dim_;
  }
  int64_t TokenOf(int32_t row) const { return task_.first_row + row % rows_ / group_; }

  void LoadQueries() {
    for (int32_t row = 0; row < all_rows_; ++row) {
      const auto* q = static_cast<const Activation*>(args_.qkv.row(TokenOf(row))) + ColumnOf(row);
      float* to = memory_.query(row);
      ForEachVector(dim_, [&](int64_t i, int64_t count) {
        StorePartial(LoadPartial(q + i, count), to + i, count);
      });
      memory_.highest[row] = -std::numeric_limits<float>::infinity();
      memory_.total[row] = 0;
    }
  }

  const Kv* Tile(int32_t block_index, int plane, int32_t head) const {
    const std::byte* block = args_.kv.block(task_.blocks[block_index]);
    return reinterpret_cast<const Kv*>(
        block + args_.kv.offset(args_.layer, plane, task_.kv_head + head, 0));
  }

  // Prefetches one half of the tile that this KV head uses next in this plane. Blocks lie far
  // apart, so the hardware does not guess them, and more than half a tile at once would stall on
  // the requests. It is inlined because GCC drops calls of a function that only prefetches.
  HWY_INLINE void Prefetch(int32_t block, int plane, int32_t head, int half) const {
    if (block + 1 >= split_end_) return;
    const auto* tile = reinterpret_cast<const char*>(Tile(block + 1, plane, head));
    const int64_t bytes = tile_ * row_ * static_cast<int64_t>(sizeof(Kv)) / 2;
    for (int64_t i = 0; i < bytes; i += 64) __builtin_prefetch(tile + half * bytes + i);
  }

  // Whether every row of [rows.begin, rows.end) sees the whole tile, which has no padding.
  bool AllSeen(Visible rows, int32_t block) const {
    return tile_ == memory_.tile_padded && SeenBy(rows.begin).end >= (block + 1) * tile_ &&
           SeenBy(rows.end - 1).begin <= block * tile_;
  }

  // Computes its own splits. Who is the last to be done merges them all, in the order in which one
  // task alone would have.
  void RunShared(SharedSplits& shared) {
    const int64_t floats = AttentionSplitFloats(all_rows_, args_.shape);
    const auto results = [&](int32_t split) {
      return shared.results + (split - shared.splits.begin) * floats;
    };
    for (int32_t split = task_.splits.begin; split < task_.splits.end; ++split) {
      Compute(split);
      memory_.SaveSplit(all_rows_, results(split));
    }
    if (shared.done.fetch_add(1, std::memory_order_acq_rel) + 1 < shared.tasks) return;
    shared.done.store(0, std::memory_order_relaxed);  // for the next layer
    for (int32_t split = shared.splits.begin; split < shared.splits.end; ++split) {
      memory_.LoadSplit(all_rows_, results(split));
      Merge(split);
    }
    StoreResults();
  }

  // The blocks of a split that the queries see.
  Visible BlocksOf(int32_t split) const {
    const int32_t last = task_.first_position + task_.queries - 1;
    return {std::max(split * split_blocks_, SeenBy(0).begin / tile_),
            std::min((split + 1) * split_blocks_, last / tile_ + 1)};
  }

  void Merge(int32_t split) {
    const auto [begin, end] = BlocksOf(split);
    for (int32_t row = 0; row < all_rows_; ++row) MergeRow(row, begin, end);
  }

  void Compute(int32_t split) {
    const auto [begin, end] = BlocksOf(split);
    split_end_ = end;
    for (int32_t block = begin; block < end; ++block) {
      for (int32_t head = 0; head < task_.kv_heads; ++head) Scores(block, block - begin, head);
    }
    for (int32_t row = 0; row < all_rows_; ++row) Softmax(row, begin, end);
    for (int32_t block = begin; block < end; ++block) {
      for (int32_t head = 0; head < task_.kv_heads; ++head) Values(block, block - begin, head);
    }
  }

  // Those of the blocks [begin, end) that `row` sees.
  Visible SeenBlocks(int32_t row, int32_t begin, int32_t end) const {
    const Visible seen = SeenBy(row % rows_);
    return {std::max(begin, seen.begin / tile_), std::min(end, (seen.end - 1) / tile_ + 1)};
  }

  // The rows [first, last) that see anything of `block`.
  Visible RowsOf(int32_t block) const {
    Visible rows{0, rows_};
    while (rows.begin < rows_ && SeenBy(rows.begin).end <= block * tile_) rows.begin += group_;
    while (rows.end > rows.begin && SeenBy(rows.end - 1).begin >= (block + 1) * tile_) {
      rows.end -= group_;
    }
    return rows;
  }

  void Scores(int32_t block, int32_t column_tile, int32_t head) {
    const Visible rows = RowsOf(block);
    if (rows.begin >= rows.end) return;
    Prefetch(block, 0, head, 0);
    const Kv* keys = Tile(block, 0, head);
    TransposeKeys(keys, tile_, dim_, row_, memory_.tile_padded, memory_.keys);
    if constexpr (kHasScales<Kv>) {
      for (int32_t token = 0; token < tile_; ++token) {
        memory_.key_scales[token] = args_.shape.scale * ScaleOf(keys + token * row_, dim_);
      }
    }
    Prefetch(block, 0, head, 1);
    float* scores = memory_.score(head * rows_) + int64_t{column_tile} * memory_.tile_padded;
    ScoreRows(memory_.query(head * rows_), dim_, memory_.keys, memory_.tile_padded,
              memory_.key_scales, scores, memory_.score_stride, rows.begin, rows.end);
    if (AllSeen(rows, block)) return;
    const float masked = -std::numeric_limits<float>::infinity();
    for (int32_t row = rows.begin; row < rows.end; ++row) {
      float* line = scores + int64_t{row} * memory_.score_stride;
      const Visible seen = SeenBy(row).Within(block * tile_, tile_);
      std::fill(line, line + seen.begin, masked);
      std::fill(line + seen.end, line + memory_.tile_padded, masked);
    }
  }

  // Turns a row's scores into weights exp(score - highest).
  void Softmax(int32_t row, int32_t begin, int32_t end) {
    const Visible seen = SeenBlocks(row, begin, end);
    if (seen.begin >= seen.end) return;
    float* line = memory_.score(row) + int64_t{seen.begin - begin} * memory_.tile_padded;
    const int64_t count = int64_t{seen.end - seen.begin} * memory_.tile_padded;
    auto highest = hn::LoadU(kFloat, line);
    for (int64_t i = kLanes; i < count; i += kLanes) {
      highest = hn::Max(highest, hn::LoadU(kFloat, line + i));
    }
    highest = hn::MaxOfLanes(kFloat, highest);
    auto total = hn::Zero(kFloat);
    for (int64_t i = 0; i < count; i += kLanes) {
      const auto weight = Exp(hn::Sub(hn::LoadU(kFloat, line + i), highest));
      hn::StoreU(weight, kFloat, line + i);
      total = hn::Add(total, weight);
    }
    memory_.split_highest[row] = hn::GetLane(highest);
    memory_.split_total[row] = Sum(total);
    std::fill_n(memory_.split_out(row), memory_.dim_padded, 0.0f);
  }

  // Adds weight times value of one block to the rows' partial results. Rows that see the whole tile
  // go together, the others query by query over what they see, so that nothing is read that nobody
  // wrote.
  void Values(int32_t block, int32_t column_tile, int32_t head) {
    const Visible rows = RowsOf(block);
    if (rows.begin >= rows.end) return;
    Prefetch(block, 1, head, 0);
    ValuesToFloats(Tile(block, 1, head), tile_, dim_, row_, memory_.dim_padded, memory_.values);
    Prefetch(block, 1, head, 1);
    float* outs = memory_.split_out(head * rows_);
    const float* weights = memory_.score(head * rows_) + int64_t{column_tile} * memory_.tile_padded;
    if (AllSeen(rows, block)) {
      AddValues(weights, memory_.score_stride, memory_.values, memory_.dim_padded, outs, rows.begin,
                rows.end, 0, tile_);
      return;
    }
    for (int32_t row = rows.begin; row < rows.end;) {
      const Visible seen = SeenBy(row).Within(block * tile_, tile_);
      int32_t next = row + group_;
      while (next < rows.end) {
        const Visible other = SeenBy(next).Within(block * tile_, tile_);
        if (other.begin != seen.begin || other.end != seen.end) break;
        next += group_;
      }
      AddValues(weights, memory_.score_stride, memory_.values, memory_.dim_padded, outs, row, next,
                seen.begin, seen.end);
      row = next;
    }
  }

  void MergeRow(int32_t row, int32_t begin, int32_t end) {
    const Visible seen = SeenBlocks(row, begin, end);
    if (seen.begin >= seen.end) return;
    float* out = memory_.out(row);
    const float* part = memory_.split_out(row);
    if (memory_.total[row] == 0) {
      std::copy_n(part, memory_.dim_padded, out);
      memory_.highest[row] = memory_.split_highest[row];
      memory_.total[row] = memory_.split_total[row];
      return;
    }
    const auto before = hn::Set(kFloat, memory_.highest[row]);
    const auto now = hn::Set(kFloat, memory_.split_highest[row]);
    const auto highest = hn::Max(before, now);
    const auto keep = Exp(hn::Sub(before, highest));
    const auto add = Exp(hn::Sub(now, highest));
    const auto total = hn::Mul(hn::Set(kFloat, memory_.total[row]), keep);
    memory_.total[row] =
        hn::GetLane(hn::MulAdd(hn::Set(kFloat, memory_.split_total[row]), add, total));
    memory_.highest[row] = hn::GetLane(highest);
    for (int64_t i = 0; i < memory_.dim_padded; i += kLanes) {
      const auto kept = hn::Mul(hn::LoadU(kFloat, out + i), keep);
      hn::StoreU(hn::MulAdd(hn::LoadU(kFloat, part + i), add, kept), kFloat, out + i);
    }
  }

  void StoreResults() {
    for (int32_t row = 0; row < all_rows_; ++row) {
      auto* to = static_cast<Activation*>(args_.out.row(TokenOf(row))) + ColumnOf(row);
      const auto total = hn::Set(kFloat, memory_.total[row]);
      const float* out = memory_.out(row);
      const auto scale = hn::Set(kFloat, args_.shape.v_scale);
      ForEachVector(dim_, [&](int64_t i, int64_t count) {
        const auto mean = hn::Div(hn::LoadU(kFloat, out + i), total);
        StorePartial(hn::Mul(mean, scale), to + i, count);
      });
    }
  }

  const AttentionArgs& args_;
  const AttentionTask& task_;
  const int32_t group_;
  const int32_t rows_;      // of one KV head
  const int32_t all_rows_;  // of all KV heads of the task, head by head
  const int64_t dim_;
  const int64_t row_;  // from one token of a tile to the next, in elements
  const int32_t tile_;
  const int32_t split_blocks_;
  int32_t split_end_ = 0;  // first block after the split at work
  AttentionMemory memory_;
};

template <typename Activation>
void RunTaskAs(const AttentionArgs& args, const AttentionTask& task, float* scratch) {
  ForKvType(args.kv.layout.dtype, [&]<typename Kv>(const Kv* /*type*/) {
    AttentionRun<Activation, Kv>(args, task, scratch).Run();
  });
}

void RunTask(const AttentionArgs& args, const AttentionTask& task, float* scratch) {
  if (args.qkv.dtype == DType::kF32) {
    RunTaskAs<float>(args, task, scratch);
  } else {
    RunTaskAs<uint16_t>(args, task, scratch);
  }
}

}  // namespace baton::kernels::cpu::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();
#endif  // BATON_CPU_TARGET

#if HWY_ONCE
namespace baton::kernels::cpu {

int AttentionSplitBlocks(int block_size) { return std::max(1, kAttentionSplitTokens / block_size); }

int AttentionRowsPerTask(const AttentionShape& shape) {
  constexpr int kRows = 64;
  return std::max(kRows, shape.q_heads / shape.kv_heads);
}

SplitRange SplitsSeen(const AttentionTask& task, const AttentionShape& shape, int block_size) {
  const int32_t tokens = AttentionSplitBlocks(block_size) * block_size;
  const int32_t last = task.first_position + task.queries - 1;
  const int32_t window = shape.sliding_window;
  const int32_t first = window > 0 ? std::max(0, task.first_position - window + 1) : 0;
  return {first / tokens, last / tokens + 1};
}

int64_t AttentionSplitFloats(int64_t rows, const AttentionShape& shape) {
  return N_AVX3::AttentionMemory::SplitFloats(rows, shape.head_dim);
}

size_t AttentionScratch(const AttentionShape& shape, int block_size) {
  return N_AVX3::AttentionMemory::Floats(AttentionRowsPerTask(shape), shape.head_dim, block_size,
                                         AttentionSplitBlocks(block_size));
}

PagedAttentionFn ChoosePagedAttention(Isa isa) {
  return isa == Isa::kAvx512 ? &N_AVX3::RunTask : &N_AVX2::RunTask;
}

}  // namespace baton::kernels::cpu
#endif
