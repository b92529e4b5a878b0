#include "kernels/cpu/paged_attention.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "kernels/attention_split.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/paged_attention.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/paged_attention-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

// Positions [begin, end) of a sequence.
struct Positions {
  int32_t begin = 0;
  int32_t end = 0;
  int32_t count() const { return end - begin; }
  bool empty() const { return begin >= end; }
  // Those that lie in `whole`, counted from its beginning.
  Positions Within(Positions whole) const {
    return {std::clamp(begin - whole.begin, 0, whole.count()),
            std::clamp(end - whole.begin, 0, whole.count())};
  }
};

Positions PositionsOf(int32_t split) {
  return {split * kAttentionSplitTokens, (split + 1) * kAttentionSplitTokens};
}

// Rows [begin, end) of one KV head.
struct RowRange {
  int32_t begin = 0;
  int32_t end = 0;
};

// Up to so many rows read keys and values as they lie in the cache, without a copy in fp32.
constexpr int kFewRows = kLanes == 16 ? 8 : 4;

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
        block_size_(args.kv.layout.block_size),
        memory_(scratch, all_rows_, dim_, AttentionTile(block_size_)) {}

  void Run() {
    LoadQueries();
    std::fill_n(memory_.key_scales, memory_.tile_padded, args_.shape.scale);
    if (task_.shared != nullptr) return RunShared(*task_.shared);
    const SplitRange seen = SplitsSeen(task_, args_.shape);
    for (int32_t split = seen.begin; split < seen.end; ++split) {
      Compute(split);
      Merge(split);
    }
    StoreResults();
  }

 private:
  // `row` is within one KV head.
  Positions SeenBy(int32_t row) const {
    const int32_t position = task_.first_position + row / group_;
    const int32_t window = args_.shape.sliding_window;
    return {window > 0 ? std::max(0, position - window + 1) : 0, position + 1};
  }

  int32_t LastPosition() const { return task_.first_position + task_.queries - 1; }

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

  // K and V are read in tiles: the tokens of a block that lie in one split.
  Positions TileAt(int32_t begin) const {
    const int32_t block_end = (begin / block_size_ + 1) * block_size_;
    return {begin, std::min(block_end, PositionsOf(begin / kAttentionSplitTokens).end)};
  }

  const Kv* Rows(Positions tile, int plane, int32_t head) const {
    const std::byte* block = args_.kv.block(task_.blocks[tile.begin / block_size_]);
    return reinterpret_cast<const Kv*>(block + args_.kv.offset(args_.layer, plane,
                                                               task_.kv_head + head,
                                                               tile.begin % block_size_));
  }

  // What a KV head reads after a tile: the next tile of the plane, after the keys of a split its
  // values, and after those the keys of the next split.
  ReadAhead After(Positions tile, int plane, int32_t head) const {
    Positions next = TileAt(tile.end);
    if (tile.end >= reads_.end) {
      if (plane == 0) next = TileAt(reads_.begin);
      if (plane == 1 && tile.end > LastPosition()) return {};
      plane = 1 - plane;
    }
    const auto* rows = reinterpret_cast<const std::byte*>(Rows(next, plane, head));
    return {rows, rows + next.count() * row_ * static_cast<int64_t>(sizeof(Kv))};
  }

  // Whether every row of [rows.begin, rows.end) sees the whole tile.
  bool AllSeen(RowRange rows, Positions tile) const {
    return SeenBy(rows.begin).end >= tile.end && SeenBy(rows.end - 1).begin <= tile.begin;
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

  void Merge(int32_t split) {
    for (int32_t row = 0; row < all_rows_; ++row) {
      if (!SeenOf(split, row).empty()) MergeRow(row);
    }
  }

  void Compute(int32_t split) {
    const Positions whole = PositionsOf(split);
    const int32_t first = SeenBy(0).begin / block_size_ * block_size_;
    reads_ = {std::max(whole.begin, first), std::min(whole.end, LastPosition() + 1)};
    const auto for_each_tile = [&](auto&& run) {
      for (Positions tile = TileAt(reads_.begin); tile.begin < reads_.end;
           tile = TileAt(tile.end)) {
        for (int32_t head = 0; head < task_.kv_heads; ++head) {
          run(tile, tile.begin - whole.begin, head);
        }
      }
    };
    for_each_tile(
        [this](Positions tile, int32_t column, int32_t head) { Scores(tile, column, head); });
    for (int32_t row = 0; row < all_rows_; ++row) Softmax(row, SeenOf(split, row));
    for_each_tile(
        [this](Positions tile, int32_t column, int32_t head) { Values(tile, column, head); });
  }

  // What `row` of all rows sees of the split.
  Positions SeenOf(int32_t split, int32_t row) const {
    return SeenBy(row % rows_).Within(PositionsOf(split));
  }

  // The rows that see anything of the tile.
  RowRange RowsOf(Positions tile) const {
    RowRange rows{0, rows_};
    while (rows.begin < rows_ && SeenBy(rows.begin).end <= tile.begin) rows.begin += group_;
    while (rows.end > rows.begin && SeenBy(rows.end - 1).begin >= tile.end) rows.end -= group_;
    return rows;
  }

  // Also writes scores that mean nothing: of positions that a row does not see, and up to a vector
  // beyond the tile, where the next one writes after it.
  void Scores(Positions tile, int32_t column, int32_t head) {
    const RowRange rows = RowsOf(tile);
    if (rows.begin >= rows.end) return;
    const Kv* keys = Rows(tile, 0, head);
    ReadAhead ahead = After(tile, 0, head);
    if (rows.end - rows.begin <= kFewRows && tile.count() % kLanes == 0) {
      return ScoreFewAs(std::make_integer_sequence<int, kFewRows>(), keys, tile.count(), column,
                        head * rows_ + rows.begin, rows.end - rows.begin, ahead);
    }
    const int64_t padded = AttentionMemory::Padded(tile.count());
    TransposeKeys(keys, tile.count(), dim_, row_, padded, memory_.keys);
    if constexpr (kHasScales<Kv>) {
      for (int32_t token = 0; token < tile.count(); ++token) {
        memory_.key_scales[token] = args_.shape.scale * ScaleOf(keys + token * row_, dim_);
      }
    }
    ScoreRows(memory_.query(head * rows_), dim_, memory_.keys, padded, memory_.key_scales,
              memory_.score(head * rows_) + column, AttentionMemory::kScoreStride, rows.begin,
              rows.end, ahead);
  }

  // Scores of `count` rows, the first of which is `row` of all rows.
  template <int... kRows>
  void ScoreFewAs(std::integer_sequence<int, kRows...> /*rows*/, const Kv* keys, int32_t tokens,
                  int32_t column, int32_t row, int32_t count, ReadAhead& ahead) {
    static constexpr void (*kScore[])(const float*, int64_t, const Kv*, int64_t, FloatVec, float*,
                                      int64_t, ReadAhead&) = {&ScoreFew<kRows + 1, Kv>...};
    for (int32_t token = 0; token < tokens; token += kLanes) {
      auto scale = hn::Set(kFloat, args_.shape.scale);
      if constexpr (kHasScales<Kv>) {
        HWY_ALIGN float scales[kLanes];
        for (int64_t i = 0; i < kLanes; ++i) scales[i] = ScaleOf(keys + (token + i) * row_, dim_);
        scale = hn::Mul(scale, hn::Load(kFloat, scales));
      }
      kScore[count - 1](memory_.query(row), dim_, keys + token * row_, row_, scale,
                        memory_.score(row) + column + token, AttentionMemory::kScoreStride, ahead);
    }
  }

  // Turns the scores of what a row sees of a split into weights exp(score - highest). Vectors lie
  // alike for every block size, so that sums round alike.
  void Softmax(int32_t row, Positions seen) {
    if (seen.empty()) return;
    float* line = memory_.score(row);
    const int64_t begin = seen.begin / AttentionMemory::kPad * AttentionMemory::kPad;
    const int64_t end = AttentionMemory::Padded(seen.end);
    const float masked = -std::numeric_limits<float>::infinity();
    std::fill(line + begin, line + seen.begin, masked);
    std::fill(line + seen.end, line + end, masked);
    auto highest = hn::LoadU(kFloat, line + begin);
    for (int64_t i = begin + kLanes; i < end; i += kLanes) {
      highest = hn::Max(highest, hn::LoadU(kFloat, line + i));
    }
    highest = hn::MaxOfLanes(kFloat, highest);
    auto total = hn::Zero(kFloat);
    for (int64_t i = begin; i < end; i += kLanes) {
      const auto weight = Exp(hn::Sub(hn::LoadU(kFloat, line + i), highest));
      hn::StoreU(weight, kFloat, line + i);
      total = hn::Add(total, weight);
    }
    memory_.split_highest[row] = hn::GetLane(highest);
    memory_.split_total[row] = Sum(total);
    std::fill_n(memory_.split_out(row), memory_.dim_padded, 0.0f);
  }

  // Adds weight times value of one tile to the rows' partial results. Rows that see the whole tile
  // go together, the others query by query over what they see, so that nothing is read that nobody
  // wrote.
  void Values(Positions tile, int32_t column, int32_t head) {
    const RowRange rows = RowsOf(tile);
    if (rows.begin >= rows.end) return;
    ReadAhead ahead = After(tile, 1, head);
    const Kv* values = Rows(tile, 1, head);
    float* outs = memory_.split_out(head * rows_);
    const float* weights = memory_.score(head * rows_) + column;
    if (rows.end - rows.begin <= kFewRows && dim_ == memory_.dim_padded && AllSeen(rows, tile)) {
      return AddValues(weights, values, row_, dim_, outs, memory_.dim_padded, rows.begin, rows.end,
                       0, tile.count(), ahead);
    }
    ValuesToFloats(values, tile.count(), dim_, row_, memory_.dim_padded, memory_.values);
    const auto add = [&](int32_t begin, int32_t end, Positions seen) {
      AddValues(weights, memory_.values, memory_.dim_padded, dim_, outs, memory_.dim_padded, begin,
                end, seen.begin, seen.end, ahead);
    };
    if (AllSeen(rows, tile)) return add(rows.begin, rows.end, {0, tile.count()});
    for (int32_t row = rows.begin; row < rows.end;) {
      const Positions seen = SeenBy(row).Within(tile);
      int32_t next = row + group_;
      while (next < rows.end) {
        const Positions other = SeenBy(next).Within(tile);
        if (other.begin != seen.begin || other.end != seen.end) break;
        next += group_;
      }
      add(row, next, seen);
      row = next;
    }
  }

  void MergeRow(int32_t row) {
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
  const int32_t block_size_;
  Positions reads_;  // of the split at work, from the beginning of a block
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

int AttentionRowsPerTask(const AttentionShape& shape) {
  constexpr int kRows = 64;
  return std::max(kRows, shape.q_heads / shape.kv_heads);
}

SplitRange SplitsSeen(const AttentionTask& task, const AttentionShape& shape) {
  const int32_t last = task.first_position + task.queries - 1;
  const int32_t window = shape.sliding_window;
  const int32_t first = window > 0 ? std::max(0, task.first_position - window + 1) : 0;
  return {first / kAttentionSplitTokens, last / kAttentionSplitTokens + 1};
}

int64_t AttentionSplitFloats(int64_t rows, const AttentionShape& shape) {
  return N_AVX3::AttentionMemory::SplitFloats(rows, shape.head_dim);
}

size_t AttentionScratch(const AttentionShape& shape, int block_size) {
  return N_AVX3::AttentionMemory::Floats(AttentionRowsPerTask(shape), shape.head_dim,
                                         N_AVX3::AttentionTile(block_size));
}

PagedAttentionFn ChoosePagedAttention(Isa isa) {
  return isa == Isa::kAvx512 ? &N_AVX3::RunTask : &N_AVX2::RunTask;
}

}  // namespace baton::kernels::cpu
#endif
