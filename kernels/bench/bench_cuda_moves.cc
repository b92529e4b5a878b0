// Sampling and block moves on GPU 0, with the share of the copy bandwidth that they reach.
//   bench_cuda_moves
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "kernels/cuda/device/runtime.h"
#include "kernels/cuda/memory/blocks.h"
#include "kernels/cuda/sample/sampler.h"

namespace baton::kernels::cuda {
namespace {

template <typename T>
T Value(absl::StatusOr<T> value) {
  if (!value.ok()) {
    std::fprintf(stderr, "bench_cuda_moves: %s\n", value.status().ToString().c_str());
    std::exit(1);
  }
  return *std::move(value);
}

void Need(const absl::Status& status) {
  if (!status.ok()) Value<int>(status);
}

// A stream, and two events to time what is queued on it.
class Timer {
 public:
  StreamHandle stream() const { return stream_.handle(); }
  // Seconds that what `launch` queues takes on the device.
  template <typename Launch>
  double Time(Launch launch) {
    Need(begin_.Record(stream()));
    launch();
    Need(end_.Record(stream()));
    Need(end_.Synchronize());
    return Value(Event::MillisecondsBetween(begin_, end_)) / 1e3;
  }

 private:
  Stream stream_ = Value(Stream::Create());
  Event begin_ = Value(Event::Create(Event::Timing::kOn));
  Event end_ = Value(Event::Create(Event::Timing::kOn));
};

std::unique_ptr<DeviceMemory> Memory(size_t bytes) { return Value(DeviceMemory::Allocate(bytes)); }

// Bytes per second that a copy on the device reads and writes together: the limit of every move.
double CopyLimit() {
  static const double limit = [] {
    constexpr size_t kBytes = size_t{1} << 30;
    Timer timer;
    const auto from = Memory(kBytes);
    const auto to = Memory(kBytes);
    double best = 1e9;
    for (int i = 0; i < 10; ++i) {
      best = std::min(best, timer.Time([&] {
        Need(CopyOnDevice(to->data(), from->data(), kBytes, timer.stream()));
      }));
    }
    return 2.0 * kBytes / best;
  }();
  return limit;
}

// The median of `repeats` runs, after one that warms up.
template <typename Run>
double Median(int repeats, Run run) {
  run();
  std::vector<double> seconds(static_cast<size_t>(repeats));
  for (double& s : seconds) s = run();
  std::nth_element(seconds.begin(), seconds.begin() + repeats / 2, seconds.end());
  return seconds[static_cast<size_t>(repeats / 2)];
}

void Report(const char* name, int32_t count, double bytes, double seconds) {
  std::printf("%-20s %5d  %9.1f us  %8.1f GB/s  %5.1f %% of copy\n", name, count, seconds * 1e6,
              bytes / seconds / 1e9, 100 * bytes / seconds / CopyLimit());
}

// Times the drawing from `count` rows of logits as `setting` says. The bytes are those of the
// logits, read once.
void Sampling(const char* name, int32_t count, const SampleRow& setting) {
  constexpr int32_t kVocab = 128256;
  Timer timer;
  const auto sampler = Value(CudaSampler::Create({.vocab = kVocab, .rows = count}, timer.stream()));
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 3);
  std::vector<float> host(static_cast<size_t>(count) * kVocab);
  for (float& x : host) x = normal(random);
  const auto logits = Memory(host.size() * sizeof(float));
  Need(CopyToDevice(logits->data(), host.data(), host.size() * sizeof(float), timer.stream()));
  const Matrix matrix = Matrix::Dense(logits->data(), DType::kF32, count, kVocab);
  const std::vector<int32_t> eos = {17, kVocab - 1};
  const std::vector<int32_t> prompt(1000, 5);
  std::vector<SampleRow> rows(static_cast<size_t>(count), setting);
  for (size_t i = 0; i < rows.size(); ++i) {
    rows[i].eos_ids = rows[i].stop_ids = eos;
    rows[i].prompt = prompt;
    rows[i].seed = i;
  }
  std::vector<SampledToken> tokens(rows.size());
  const double seconds = Median(50, [&] {
    Need(sampler->Stage(rows));
    const double launched = timer.Time([&] { Need(sampler->Launch(matrix)); });
    Need(sampler->Finish(matrix));
    Need(sampler->Collect(tokens));
    return launched;
  });
  Report(name, count, static_cast<double>(host.size()) * sizeof(float), seconds);
}

// Times the copy of blocks of 2 MiB (those of Llama-3.1-8B in bf16) into one staging buffer.
void Gather(const char* name, size_t count, bool with_sums) {
  constexpr size_t kBlockBytes = size_t{2} << 20;
  Timer timer;
  const auto arena = Memory(4 * count * kBlockBytes);
  const auto staging = Memory(count * kBlockBytes);
  const auto sums = Memory(count * sizeof(uint64_t));
  std::vector<BlockPart> host(count);
  for (size_t i = 0; i < count; ++i) {
    host[i] = {.from = static_cast<std::byte*>(arena->data()) + (i * 7 % (4 * count)) * kBlockBytes,
               .to = static_cast<std::byte*>(staging->data()) + i * kBlockBytes,
               .bytes = kBlockBytes};
  }
  const auto parts = Memory(count * sizeof(BlockPart));
  Need(CopyToDevice(parts->data(), host.data(), count * sizeof(BlockPart), timer.stream()));
  const double seconds = Median(50, [&] {
    return timer.Time([&] {
      const int error = LaunchCopyParts(
          static_cast<const BlockPart*>(parts->data()), static_cast<int32_t>(count), kBlockBytes,
          with_sums ? static_cast<uint64_t*>(sums->data()) : nullptr, timer.stream());
      if (error != 0) Need(ToStatus(error, "gathering"));
    });
  });
  Report(name, static_cast<int32_t>(count), 2.0 * static_cast<double>(count * kBlockBytes),
         seconds);
}

void RunAll() {
  const SampleRow all{.temperature = 0.8f,
                      .top_k = 50,
                      .top_p = 0.95f,
                      .min_p = 0.01f,
                      .repetition_penalty = 1.1f,
                      .num_top_logprobs = 5};
  for (const int32_t rows : {1, 64}) {
    Sampling("sample greedy", rows, {});
    Sampling("sample temperature", rows, {.temperature = 0.8f});
    Sampling("sample top_p", rows, {.temperature = 0.8f, .top_p = 0.95f});
    Sampling("sample all", rows, all);
  }
  for (const size_t blocks : {8, 128}) {
    Gather("gather", blocks, false);
    Gather("gather with sums", blocks, true);
  }
}

}  // namespace
}  // namespace baton::kernels::cuda

int main() {
  const auto device = baton::kernels::cuda::OpenDevice(0);
  if (!device.ok()) {
    std::fprintf(stderr, "bench_cuda_moves: %s\n", device.status().ToString().c_str());
    return 4;
  }
  std::printf("%s, copy %.0f GB/s\n", device->name.c_str(),
              baton::kernels::cuda::CopyLimit() / 1e9);
  baton::kernels::cuda::RunAll();
}
