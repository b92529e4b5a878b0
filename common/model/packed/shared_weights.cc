#include "common/model/packed/shared_weights.h"

#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/fnv128.h"
#include "common/base/status.h"
#include "common/model/load_memory.h"
#include "common/model/packed/numa_node.h"
#include "common/model/packed/packed_file.h"
#include "common/model/packed/packed_folder.h"
#include "common/model/packed/packed_format.h"
#include "common/model/weight_loader.h"
#include "common/model/weight_source.h"
#include "kernels/packed_images.h"
#include "spdlog/spdlog.h"

namespace baton {
namespace {

using kernels::Buffer;
using kernels::DType;
using kernels::PackedImage;
using kernels::PackedImages;
using kernels::PackedWeight;

constexpr base::Duration kPoll = std::chrono::milliseconds(20);

std::string RowsForm(DType dtype, int64_t rows, int64_t cols) {
  return absl::StrCat("rows of ", std::string(kernels::Name(dtype)), ", ", rows, " x ", cols);
}

// Packs what another maker packs, writes it to a file and keeps nothing.
class WritingMaker final : public WeightMaker {
 public:
  WritingMaker(PackingMaker& packing, const PackedImages& images, DType dtype,
               PackedFileWriter& writer)
      : packing_(packing), images_(images), dtype_(dtype), writer_(writer) {}

  absl::StatusOr<std::unique_ptr<PackedWeight>> Matrix(const WeightItem& item,
                                                       bool keep_precision) override {
    BATON_ASSIGN_OR_RETURN(const auto packed, packing_.Matrix(item, keep_precision));
    BATON_RETURN_IF_ERROR(Add(item.name, images_.ImageOf(*packed)));
    return nullptr;
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Vector(const WeightItem& item) override {
    BATON_ASSIGN_OR_RETURN(const auto buffer, packing_.Vector(item));
    BATON_RETURN_IF_ERROR(AddRows(item.name, *buffer, DType::kF32, 1, item.rows()));
    return nullptr;
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Table(const WeightItem& item, bool read_again) override {
    BATON_ASSIGN_OR_RETURN(const auto buffer, packing_.Table(item, read_again));
    BATON_RETURN_IF_ERROR(AddRows(item.name, *buffer, dtype_, item.rows(), item.width()));
    return nullptr;
  }
  // What went wrong with the file, and not with the checkpoint.
  const absl::Status& failure() const { return failure_; }

 private:
  absl::Status AddRows(const std::string& name, const Buffer& buffer, DType dtype, int64_t rows,
                       int64_t cols) {
    return Add(name, {.form = RowsForm(dtype, rows, cols),
                      .parts = {{static_cast<const std::byte*>(buffer.data()), buffer.size()}}});
  }
  absl::Status Add(const std::string& name, const PackedImage& image) {
    failure_ = writer_.Add(name, image);
    return failure_;
  }

  PackingMaker& packing_;
  const PackedImages& images_;
  const DType dtype_;
  PackedFileWriter& writer_;
  absl::Status failure_;
};

// Takes weights where they lie in a file. Every error is a defect of the file.
class MappingMaker final : public WeightMaker {
 public:
  MappingMaker(const PackedFile& file, const PackedImages& images, DType dtype)
      : file_(file), images_(images), dtype_(dtype) {}

  absl::StatusOr<std::unique_ptr<PackedWeight>> Matrix(const WeightItem& item,
                                                       bool /*keep_precision*/) override {
    BATON_ASSIGN_OR_RETURN(const PackedImage image, file_.Find(item.name));
    auto weight = images_.FromImage(image, item.rows(), item.width());
    if (!weight.ok()) return Defect(item.name, weight.status());
    return weight;
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Vector(const WeightItem& item) override {
    return Rows(item.name, DType::kF32, 1, item.rows());
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Table(const WeightItem& item,
                                                bool /*read_again*/) override {
    return Rows(item.name, dtype_, item.rows(), item.width());
  }

 private:
  absl::Status Defect(const std::string& name, const absl::Status& why) const {
    return absl::DataLossError(
        absl::StrCat(file_.path(), ": ", name, ": ", std::string(why.message())));
  }
  absl::StatusOr<std::unique_ptr<Buffer>> Rows(const std::string& name, DType dtype, int64_t rows,
                                               int64_t cols) {
    BATON_ASSIGN_OR_RETURN(const PackedImage image, file_.Find(name));
    const auto bytes = static_cast<size_t>(rows * cols) * SizeOf(dtype);
    const absl::Status fits = CheckImage(image, RowsForm(dtype, rows, cols), bytes);
    if (!fits.ok()) return Defect(name, fits);
    return kernels::ViewHost(image.parts[0]);
  }

  const PackedFile& file_;
  const PackedImages& images_;
  const DType dtype_;
};

// The load of one rank. Its methods log what they do without.
class SharedLoad final {
 public:
  SharedLoad(const WeightJob& job, const PackedFolder& folder, PackedKey key,
             base::Duration patience)
      : job_(job),
        images_(*job.backend.packed_images()),
        dtype_(job.backend.info().compute_dtype),
        folder_(folder),
        key_(std::move(key)),
        patience_(patience) {}

  absl::StatusOr<std::optional<ModelWeights>> Run();

 private:
  // Maps the file. One that was never checked is checked where `check` allows it, and is
  // UNAVAILABLE otherwise.
  absl::StatusOr<ModelWeights> Map(bool check);
  struct Lock {
    OwnedFile file;
    bool waited = false;  // for another worker
  };
  // The lock of the file, when whoever has it gives it back; empty where it is not to be had.
  std::optional<Lock> TakeLock() const;
  // Writes the file. False where it cannot be written; an error is the checkpoint's.
  absl::StatusOr<bool> Write();
  std::string path() const { return folder_.PathOf(key_.name); }

  const WeightJob& job_;
  const PackedImages& images_;
  const DType dtype_;
  const PackedFolder& folder_;
  const PackedKey key_;
  const base::Duration patience_;
};

absl::StatusOr<ModelWeights> SharedLoad::Map(bool check) {
  BATON_ASSIGN_OR_RETURN(auto file, PackedFile::Open(folder_, key_.name, key_.identity));
  const bool marked = file->IsMarked(folder_);
  if (!marked && !check) return absl::UnavailableError("not checked yet");
  BATON_RETURN_IF_ERROR(file->Populate([&](int64_t done) {
    if (job_.progress) job_.progress(done, file->bytes());
  }));
  if (!marked) BATON_RETURN_IF_ERROR(file->CheckSums());
  MappingMaker maker(*file, images_, dtype_);
  BATON_ASSIGN_OR_RETURN(
      ModelWeights weights,
      WeightLoader(job_.config, job_.shape, job_.backend.CanEmbedFromPacked(), maker).Load());
  if (!marked) file->Mark(folder_);
  spdlog::info("weights mapped from load cache {}: {} MiB, which other workers can share",
               file->path(), file->bytes() >> 20);
  weights.file = std::move(file);
  return weights;
}

std::optional<SharedLoad::Lock> SharedLoad::TakeLock() const {
  const base::SteadyClock clock;
  const base::Instant begin = clock.Now();
  for (bool waits = false;; waits = true) {
    auto lock = folder_.TryLock(key_.name + ".lock");
    if (lock.ok()) {
      if (waits) {
        spdlog::info("load cache {}: the other worker is done after {:.1f} s", path(),
                     base::Seconds(clock.Now() - begin));
      }
      return Lock{.file = std::move(lock).value(), .waited = waits};
    }
    if (!absl::IsAborted(lock.status())) {
      spdlog::warn("no load cache is used: {}", std::string(lock.status().message()));
      return std::nullopt;
    }
    if (!waits) spdlog::info("load cache {}: waiting for another worker to prepare it", path());
    if (clock.Now() - begin >= patience_) {
      spdlog::warn(
          "load cache {}: another worker has prepared it for {:.0f} s and is not done: this one "
          "packs weights of its own",
          path(), base::Seconds(clock.Now() - begin));
      return std::nullopt;
    }
    std::this_thread::sleep_for(kPoll);
  }
}

absl::StatusOr<bool> SharedLoad::Write() {
  const auto failed = [](const absl::Status& why) {
    spdlog::warn("no load cache is written, the load goes on without: {}",
                 std::string(why.message()));
    return false;
  };
  const base::SteadyClock clock;
  const base::Instant begin = clock.Now();
  auto writer = PackedFileWriter::Create(folder_, key_.name, key_.identity,
                                         {.bytes = MostPackedBytes(job_), .time = patience_});
  if (!writer.ok()) return failed(writer.status());
  CheckpointSource source(job_.config, job_.files, job_.backend.info(),
                          PackingOrder(job_.config, job_.files), nullptr);
  PackingMaker packing(source, job_.backend, job_.progress);
  WritingMaker maker(packing, images_, dtype_, **writer);
  const auto written =
      WeightLoader(job_.config, job_.shape, job_.backend.CanEmbedFromPacked(), maker).Load();
  if (!maker.failure().ok()) return failed(maker.failure());
  BATON_RETURN_IF_ERROR(written.status());
  const absl::Status committed = (*writer)->Commit();
  if (!committed.ok()) return failed(committed);
  spdlog::info("load cache written: {}, {} MiB in {:.1f} s", path(),
               folder_.SizeOf(key_.name) >> 20, base::Seconds(clock.Now() - begin));
  return true;
}

absl::StatusOr<std::optional<ModelWeights>> SharedLoad::Run() {
  if (auto weights = Map(/*check=*/false); weights.ok()) {
    return std::optional<ModelWeights>(std::move(weights).value());
  }
  const std::optional<Lock> lock = TakeLock();
  if (!lock.has_value()) return std::nullopt;
  // While this one waited for the lock, another may have prepared the file.
  auto weights = Map(/*check=*/true);
  if (weights.ok()) return std::optional<ModelWeights>(std::move(weights).value());
  if (!absl::IsNotFound(weights.status())) {
    spdlog::warn("the load cache is not used, and has to be written anew: {}",
                 std::string(weights.status().message()));
  }
  // The other one has failed or was ended. What failed once would fail again, one worker after the
  // other: the next start tries it.
  if (lock->waited) {
    spdlog::warn("load cache {}: the other worker left none: this one packs weights of its own",
                 path());
    return std::nullopt;
  }
  BATON_ASSIGN_OR_RETURN(const bool written, Write());
  if (!written) return std::nullopt;
  weights = Map(/*check=*/true);
  if (weights.ok()) return std::optional<ModelWeights>(std::move(weights).value());
  spdlog::warn("the load cache that was just written is not used: {}",
               std::string(weights.status().message()));
  return std::nullopt;
}

}  // namespace

int64_t MostPackedBytes(const WeightJob& job) {
  constexpr double kMore = 1.02;    // rows and columns that a layout fills up
  constexpr size_t kMostParts = 4;  // of an image: values, scales, zero points, order
  const MemoryNeed need = MemoryNeed::Of(job.config, job.shape, 1, job.backend.info().compute_dtype,
                                         kernels::Quantization::kNone, {});
  const size_t gaps =
      MostItems(job.config) * kMostParts * (kernels::kImageMargin + kernels::kImageAlignment);
  return static_cast<int64_t>(need.weights * kMore + static_cast<double>(gaps));
}

PackedKey PackedKey::Of(const LoadCacheKey& key, const std::string& layout,
                        std::optional<int> node) {
  Fnv128 hash;
  hash.Add(layout);
  hash.Add(key.folder);
  const std::string of_node = node.has_value() ? absl::StrCat("-node", *node) : "";
  return {.name = absl::StrCat(key.fingerprint, "-", std::string(kernels::Name(key.dtype)), "-tp",
                               key.ranks, "-rank", key.rank, of_node, "-", hash.Hex().substr(0, 8),
                               ".v", packed::kVersion, ".packed"),
          .identity = absl::StrCat("packed weights ", packed::kVersion, ", ", key.Identity(),
                                   of_node, ", ", layout)};
}

absl::StatusOr<std::optional<ModelWeights>> LoadSharedWeights(const WeightJob& job,
                                                              const LoadCachePlace& place) {
  auto folder = PackedFolder::Open(place.dir);
  if (!folder.ok()) {
    spdlog::warn("no load cache is used: {}", std::string(folder.status().message()));
    return std::nullopt;
  }
  if (const absl::Status keeps = folder->CheckFileSystem(); !keeps.ok()) {
    spdlog::warn("no load cache is used: {}", std::string(keeps.message()));
    return std::nullopt;
  }
  const PackedImages& images = *job.backend.packed_images();
  PackedKey key = PackedKey::Of(place.key, images.layout(), NumaNodeOf(images.cpus()));
  return SharedLoad(job, *folder, std::move(key), place.patience).Run();
}

}  // namespace baton
