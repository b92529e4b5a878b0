#include "kernels/cpu/attention/attention_tasks.h"

#include <algorithm>

namespace baton::kernels::cpu {
namespace {

// Tasks for each thread at least, so that those that wait at the end wait for little.
constexpr int64_t kTasksPerThread = 2;
// What the results of one task's splits may take. Only tasks of a few rows, as those of a decode
// step, can be long and few; others are many.
constexpr int64_t kMaxResultFloats = int64_t{1} << 20;

int64_t RowsOf(const AttentionTask& task, const AttentionShape& shape) {
  return int64_t{task.queries} * task.kv_heads * (shape.q_heads / shape.kv_heads);
}

// Whether two shapes have the same tasks.
bool SameDivision(const AttentionShape& a, const AttentionShape& b) {
  return a.q_heads == b.q_heads && a.kv_heads == b.kv_heads && a.head_dim == b.head_dim &&
         a.sliding_window == b.sliding_window;
}

}  // namespace

void AttentionTasks::Clear() { shape_.reset(); }

// Where there are few queries a task takes several KV heads, as long as every thread has work.
std::span<const AttentionTask> AttentionTasks::For(std::span<const StepLayout::Sequence> sequences,
                                                   const AttentionShape& shape, int threads) {
  if (shape_ && SameDivision(*shape_, shape)) return tasks_;
  shape_ = shape;
  tasks_.clear();
  shared_.clear();
  const auto count = static_cast<int32_t>(sequences.size());
  const int32_t heads_for_threads = std::max(1, shape.kv_heads * count / (4 * threads));
  for (const StepLayout::Sequence& sequence : sequences) {
    AddSequence(sequence, shape, heads_for_threads);
  }
  if (threads > 1) DivideLong(shape, threads);
  return tasks_;
}

void AttentionTasks::AddSequence(const StepLayout::Sequence& sequence, const AttentionShape& shape,
                                 int32_t heads_for_threads) {
  const int32_t rows = AttentionRowsPerTask(shape);
  const int32_t group = shape.q_heads / shape.kv_heads;
  const int32_t queries = rows / group;
  const int32_t in_task = std::min(queries, sequence.num_tokens) * group;
  const int32_t heads = std::min({shape.kv_heads, heads_for_threads, rows / in_task});
  // The last queries see the most keys. They go first, so that no thread is left with a long task.
  const int32_t parts = (sequence.num_tokens + queries - 1) / queries;
  for (int32_t part = parts - 1; part >= 0; --part) {
    const int32_t first = part * queries;
    for (int32_t head = 0; head < shape.kv_heads; head += heads) {
      tasks_.push_back({.blocks = sequence.blocks.data(),
                        .first_row = sequence.token_begin + first,
                        .queries = std::min(queries, sequence.num_tokens - first),
                        .first_position = sequence.context - sequence.num_tokens + first,
                        .kv_head = head,
                        .kv_heads = std::min(heads, shape.kv_heads - head)});
    }
  }
}

// Divides the tasks that are more than their share of the step, because the thread that takes one
// would leave the others without work.
void AttentionTasks::DivideLong(const AttentionShape& shape, int threads) {
  int64_t work = 0;  // rows times splits
  for (const AttentionTask& task : tasks_) {
    work += RowsOf(task, shape) * SplitsSeen(task, shape).count();
  }
  const int64_t share = std::max<int64_t>(1, work / (kTasksPerThread * threads));
  std::vector<AttentionTask> divided;
  for (const AttentionTask& task : tasks_) {
    const SplitRange splits = SplitsSeen(task, shape);
    const int64_t rows = RowsOf(task, shape);
    const int64_t parts =
        std::min<int64_t>(splits.count(), (rows * splits.count() + share - 1) / share);
    const int64_t floats = AttentionSplitFloats(rows, shape) * splits.count();
    if (parts < 2 || floats > kMaxResultFloats) {
      divided.push_back(task);
    } else {
      Divide(task, splits, parts, &divided);
    }
  }
  tasks_ = std::move(divided);
  PlaceResults(shape);
}

void AttentionTasks::Divide(const AttentionTask& task, SplitRange splits, int64_t parts,
                            std::vector<AttentionTask>* divided) {
  SharedSplits& shared = shared_.emplace_back();
  shared.splits = splits;
  shared.tasks = static_cast<int32_t>(parts);
  for (int64_t part = 0; part < parts; ++part) {
    AttentionTask& own = divided->emplace_back(task);
    own.splits = {splits.begin + static_cast<int32_t>(splits.count() * part / parts),
                  splits.begin + static_cast<int32_t>(splits.count() * (part + 1) / parts)};
    own.shared = &shared;
  }
}

// Gives every SharedSplits its memory, once it is known how much all need.
void AttentionTasks::PlaceResults(const AttentionShape& shape) {
  const auto for_each = [&](const auto& place) {
    const SharedSplits* last = nullptr;
    for (const AttentionTask& task : tasks_) {
      if (task.shared == last) continue;  // tasks that share stand side by side
      last = task.shared;
      if (last != nullptr) {
        place(*task.shared,
              AttentionSplitFloats(RowsOf(task, shape), shape) * task.shared->splits.count());
      }
    }
  };
  int64_t needed = 0;
  for_each([&](SharedSplits&, int64_t floats) { needed += floats; });
  if (needed > results_floats_) {
    results_ = std::make_unique_for_overwrite<float[]>(static_cast<size_t>(needed));
    results_floats_ = needed;
  }
  float* next = results_.get();
  for_each([&](SharedSplits& shared, int64_t floats) {
    shared.results = next;
    next += floats;
  });
}

}  // namespace baton::kernels::cpu
