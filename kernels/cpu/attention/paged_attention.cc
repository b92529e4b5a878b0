#include "kernels/cpu/attention/paged_attention.h"

#include <algorithm>

#include "kernels/cpu/attention/attention_scratch.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/cpu/attention/paged_attention.cc"
#include "hwy/foreach_target.h"
#include "kernels/cpu/attention/attention_results-inl.h"
#include "kernels/cpu/attention/attention_tile-inl.h"
#include "kernels/cpu/attention/float_tiles-inl.h"
#include "kernels/cpu/attention/pair_tiles-inl.h"

#if BATON_CPU_TARGET
HWY_BEFORE_NAMESPACE();
namespace baton::kernels::cpu::HWY_NAMESPACE {

Positions PositionsOf(int32_t split) {
  return {split * kAttentionSplitTokens, (split + 1) * kAttentionSplitTokens};
}

// One task, computed by `Tiles`: FloatTiles or PairTiles. Its rows are pairs of a query and a head
// of the group, all heads of a query together, KV head by KV head.
template <typename Tiles>
class AttentionRun {
 public:
  using Activation = typename Tiles::Activation;
  using Kv = typename Tiles::Kv;
  using Scratch = typename Tiles::Scratch;

  AttentionRun(const AttentionArgs& args, const AttentionTask& task, ScratchCutter scratch)
      : args_(args),
        task_(task),
        group_(args.shape.q_heads / args.shape.kv_heads),
        rows_(task.queries * group_),
        all_rows_(rows_ * task.kv_heads),
        dim_(args.shape.head_dim),
        row_(static_cast<int64_t>(args.kv.layout.row_bytes() / sizeof(Kv))),
        block_size_(args.kv.layout.block_size),
        head_rows_(row_ * block_size_),
        tiles_(scratch, all_rows_, args.shape, row_, LargestTile<Scratch>(block_size_)),
        results_(scratch, all_rows_, Scratch::Width(dim_)),
        gathered_(scratch.Take(GatheredFloats<Scratch>(dim_, block_size_))) {}

  void Run() {
    LoadQueries();
    if (task_.shared != nullptr) return RunShared(*task_.shared);
    const SplitRange seen = SplitsSeen(task_, args_.shape);
    for (int32_t split = seen.begin; split < seen.end; ++split) {
      Compute(split);
      Merge(split);
    }
    StoreResults();
  }

 private:
  // What the queries of a KV head read at once of a plane: the tokens of a block that lie in one
  // split, and what is fetched meanwhile.
  struct Tile {
    Positions positions;
    RowRange queries;    // that see anything of it
    int32_t column = 0;  // of its first token in the split
    const Kv* rows = nullptr;
    ReadAhead ahead;
  };

  Positions SeenBy(int32_t query) const {
    const int32_t position = task_.first_position + query;
    const int32_t window = args_.shape.sliding_window;
    return {window > 0 ? std::max(0, position - window + 1) : 0, position + 1};
  }

  int32_t LastPosition() const { return task_.first_position + task_.queries - 1; }

  RowRange QueriesThatSee(Positions tile) const {
    const int32_t window = args_.shape.sliding_window;
    const int32_t first = task_.first_position;
    return {
        std::clamp(tile.begin - first, 0, task_.queries),
        window > 0 ? std::clamp(tile.end + window - 1 - first, 0, task_.queries) : task_.queries};
  }

  // Calls f(row, query, column), with the column of the row's query head in qkv and out.
  template <typename F>
  void ForEachRow(F f) const {
    int32_t row = 0;
    for (int32_t head = 0; head < task_.kv_heads; ++head) {
      for (int32_t query = 0; query < task_.queries; ++query) {
        for (int32_t member = 0; member < group_; ++member) {
          f(row++, query, (int64_t{task_.kv_head + head} * group_ + member) * dim_);
        }
      }
    }
  }

  void LoadQueries() {
    ForEachRow([&](int32_t row, int32_t query, int64_t column) {
      const void* const token = args_.qkv.row(task_.first_row + query);
      tiles_.LoadQuery(row, static_cast<const Activation*>(token) + column);
    });
  }

  Positions PositionsOfTile(int32_t begin) const {
    const int32_t block_end = (begin / block_size_ + 1) * block_size_;
    return {begin, std::min(block_end, PositionsOf(begin / kAttentionSplitTokens).end)};
  }

  // Of the task's first KV head; those of the others lie `head_rows_` further each.
  const Kv* Rows(Positions tile, int plane) const {
    const std::byte* block = args_.kv.block(task_.blocks[tile.begin / block_size_]);
    return reinterpret_cast<const Kv*>(
        block + args_.kv.offset(args_.layer, plane, task_.kv_head, tile.begin % block_size_));
  }

  // What a KV head reads after a tile: the next tile of the plane, after the keys of a split its
  // values, and after those the keys of the next split.
  ReadAhead After(Positions tile, int plane) const {
    int32_t next = tile.end;
    if (tile.end >= reads_.end) {
      if (plane == 0) next = reads_.begin;
      if (plane == 1 && tile.end > LastPosition()) return {};
      plane = 1 - plane;
    }
    const Positions positions = PositionsOfTile(next);
    const auto* rows = reinterpret_cast<const std::byte*>(Rows(positions, plane));
    return {rows, rows + positions.count() * row_ * static_cast<int64_t>(sizeof(Kv))};
  }

  // Calls f(tile, head) for what is read of a plane of the split at work.
  template <typename F>
  void ForEachTile(int plane, F f) const {
    for (int32_t begin = reads_.begin; begin < reads_.end;) {
      Tile tile{.positions = PositionsOfTile(begin), .column = begin % kAttentionSplitTokens};
      tile.queries = QueriesThatSee(tile.positions);
      tile.rows = Rows(tile.positions, plane);
      tile.ahead = After(tile.positions, plane);
      for (int32_t head = 0; head < task_.kv_heads; ++head) {
        f(tile, head);
        tile.rows += head_rows_;
        tile.ahead.MoveBy(head_rows_ * static_cast<int64_t>(sizeof(Kv)));
      }
      begin = tile.positions.end;
    }
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
      results_.SaveSplit(results(split));
    }
    if (shared.done.fetch_add(1, std::memory_order_acq_rel) + 1 < shared.tasks) return;
    shared.done.store(0, std::memory_order_relaxed);  // for the next layer
    for (int32_t split = shared.splits.begin; split < shared.splits.end; ++split) {
      results_.LoadSplit(results(split));
      Merge(split);
    }
    StoreResults();
  }

  void Merge(int32_t split) {
    ForEachRow([&](int32_t row, int32_t query, int64_t /*column*/) {
      if (!SeenBy(query).Within(PositionsOf(split)).empty()) results_.Merge(row);
    });
  }

  void Compute(int32_t split) {
    const Positions whole = PositionsOf(split);
    const int32_t first = SeenBy(0).begin / block_size_ * block_size_;
    reads_ = {std::max(whole.begin, first), std::min(whole.end, LastPosition() + 1)};
    ForEachTile(0, [&](const Tile& tile, int32_t head) {
      if (tile.queries.count() <= 0) return;
      tiles_.Score(RowsOf(tile.queries, head), tile.rows, tile.positions.count(), tile.column,
                   tile.ahead);
    });
    ForEachRow([&](int32_t row, int32_t query, int64_t /*column*/) {
      const Positions seen = SeenBy(query).Within(whole);
      if (!seen.empty()) results_.BeginSplit(row, tiles_.Weigh(row, seen));
    });
    if (GathersValues<Scratch>(block_size_)) {
      for (int32_t head = 0; head < task_.kv_heads; ++head) GatherValues(head);
    } else {
      ForEachTile(1, [&](const Tile& tile, int32_t head) { Values(tile, head); });
    }
  }

  // Adds weight times value of one tile to the rows' partial results. Rows that see the same of it
  // go together, so that nothing is multiplied that nobody wrote.
  void Values(const Tile& tile, int32_t head) {
    const RowRange queries = tile.queries;
    if (queries.count() <= 0) return;
    const auto seen_by = [&](int32_t query) { return SeenBy(query).Within(tile.positions); };
    const Positions all = {0, tile.positions.count()};
    tiles_.TakeValues(RowsOf(queries, head), tile.rows, all.count(),
                      seen_by(queries.begin) == all && seen_by(queries.end - 1) == all);
    ReadAhead ahead = tile.ahead;
    for (int32_t query = queries.begin; query < queries.end;) {
      const Positions seen = seen_by(query);
      int32_t next = query + 1;
      while (next < queries.end && seen_by(next) == seen) ++next;
      tiles_.AddValues(RowsOf({query, next}, head), seen, tile.column, results_.split_out(0),
                       ahead);
      query = next;
    }
  }

  // Values of a split as one tile.
  void GatherValues(int32_t head) {
    const int32_t begin = reads_.begin / Scratch::kTokensTogether * Scratch::kTokensTogether;
    auto* const gathered = reinterpret_cast<Kv*>(gathered_);
    ForEachTile(1, [&](const Tile& tile, int32_t of) {
      if (of != head) return;
      const Positions read = {tile.positions.begin, std::min(tile.positions.end, reads_.end)};
      std::copy_n(tile.rows, read.count() * row_, gathered + (read.begin - begin) * row_);
    });
    const Positions whole = {begin, reads_.end};
    Values({whole, QueriesThatSee(whole), begin % kAttentionSplitTokens, gathered, {}}, head);
  }

  // The rows of some queries, beside those of the other KV heads.
  RowRange RowsOf(RowRange queries, int32_t head) const {
    return {queries.begin * group_ + head * rows_, queries.end * group_ + head * rows_};
  }

  void StoreResults() {
    ForEachRow([&](int32_t row, int32_t query, int64_t column) {
      void* const token = args_.out.row(task_.first_row + query);
      tiles_.Store(results_.out(row), results_.total(row), args_.shape.v_scale,
                   static_cast<Activation*>(token) + column);
    });
  }

  const AttentionArgs& args_;
  const AttentionTask& task_;
  const int32_t group_;
  const int32_t rows_;      // of one KV head
  const int32_t all_rows_;  // of all KV heads of the task, head by head
  const int64_t dim_;
  const int64_t row_;  // from one token of a tile to the next, in elements
  const int32_t block_size_;
  const int64_t head_rows_;  // from one KV head of a block to the next, in elements
  Positions reads_;          // of the split at work, from the beginning of a block
  Tiles tiles_;
  AttentionResults results_;
  float* const gathered_;
};

void RunTask(const AttentionArgs& args, const AttentionTask& task, float* scratch) {
  ForKvType(args.kv.layout.dtype, [&]<typename Kv>(const Kv* /*type*/) {
    if (args.qkv.dtype == DType::kF32) {
      AttentionRun<FloatTiles<float, Kv>>(args, task, {scratch}).Run();
    } else {
      AttentionRun<FloatTiles<uint16_t, Kv>>(args, task, {scratch}).Run();
    }
  });
}

#if HWY_TARGET == HWY_AVX3
void RunTaskInPairs(const AttentionArgs& args, const AttentionTask& task, float* scratch) {
  const DType kv = args.kv.layout.dtype;
  if (args.qkv.dtype != DType::kBF16 || kv == DType::kF32) return RunTask(args, task, scratch);
  ForKvType(kv, [&]<typename Kv>(const Kv* /*type*/) {
    if constexpr (sizeof(Kv) <= 2) AttentionRun<PairTiles<Kv>>(args, task, {scratch}).Run();
  });
}
#endif

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
  return ResultScratch::SplitFloats(rows, PairScratch::Width(shape.head_dim));
}

size_t AttentionScratch(const AttentionShape& shape, int block_size) {
  const int64_t rows = AttentionRowsPerTask(shape);
  return static_cast<size_t>(std::max(TaskFloats<FloatScratch>(rows, shape.head_dim, block_size),
                                      TaskFloats<PairScratch>(rows, shape.head_dim, block_size)));
}

PagedAttentionFn ChoosePagedAttention(Isa isa) {
  if (isa == Isa::kAvx512Bf16) return &N_AVX3::RunTaskInPairs;
  return VectorIsa(isa) == Isa::kAvx512 ? &N_AVX3::RunTask : &N_AVX2::RunTask;
}

int AttentionVersion(Isa isa) { return isa == Isa::kAvx512Bf16 ? 2 : 1; }

}  // namespace baton::kernels::cpu
#endif
