#include "common/model/packed/shared_weights.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "common/base/clock.h"
#include "common/base/fnv128.h"
#include "common/base/status.h"
#include "common/model/load_memory.h"
#include "common/model/packed/image_makers.h"
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

using kernels::DType;
using kernels::PackedImage;
using kernels::PackedImages;

constexpr base::Duration kPoll = std::chrono::milliseconds(20);

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
  // Maps a file whose checksums were verified, if this copy of the checkpoint packs to it.
  // UNAVAILABLE where nobody has verified them.
  absl::StatusOr<ModelWeights> Map();
  absl::StatusOr<ModelWeights> MapFile(const PackedFile& file, bool known);
  // Verifies the checksums of the file where nobody has yet; `own`: this load has written it. For
  // whoever holds the lock. Says why, if this load has seen that it cannot use the file.
  absl::Status Verify(bool own);
  // So that no step waits for a page, and none is missing when it is read.
  absl::Status Populate(const PackedFile& file) const;
  // FAILED_PRECONDITION where this copy of the checkpoint does not pack to the file. Says beside
  // the file that it does.
  absl::Status Compare(const PackedFile& file);
  void NoteCopy(const PackedFile& file) const;
  struct Lock {
    OwnedFile file;
    bool waited = false;  // for another worker
  };
  // The lock of the file, when whoever has it gives it back; empty where it is not to be had.
  std::optional<Lock> TakeLock() const;
  // Writes the file. False where it cannot be written; an error is the checkpoint's.
  absl::StatusOr<bool> Write();
  // Packs the checkpoint and gives every image to `sink`, whose error comes in `failure`.
  absl::Status PackInto(const ImageSink& sink, absl::Status* failure);
  std::string path() const { return folder_.PathOf(key_.name); }
  std::string lock_name() const { return key_.name + ".lock"; }

  const WeightJob& job_;
  const PackedImages& images_;
  const DType dtype_;
  const PackedFolder& folder_;
  const PackedKey key_;
  const base::Duration patience_;
  // States of the file: that this load has verified, that it has written, and that it could not
  // use, with the reason.
  std::string verified_;
  std::string written_;
  std::string unfit_;
  absl::Status unfit_for_;
};

absl::StatusOr<ModelWeights> SharedLoad::Map() {
  BATON_ASSIGN_OR_RETURN(auto file, PackedFile::Open(folder_, key_.name, key_.identity));
  const std::string state = file->state();
  if (state == unfit_) return unfit_for_;
  const auto copies = file->CheckedFor(folder_);
  if (!copies.has_value() && state != verified_) return absl::UnavailableError("not checked yet");
  const bool known = state == written_ ||
                     (copies.has_value() && std::ranges::find(*copies, key_.copy) != copies->end());
  auto weights = MapFile(*file, known);
  if (!weights.ok()) {
    unfit_ = state;
    unfit_for_ = weights.status();
    return weights;
  }
  spdlog::info("weights mapped from load cache {}: {} MiB, which other workers can share",
               file->path(), file->bytes() >> 20);
  weights->file = std::move(file);
  return weights;
}

absl::StatusOr<ModelWeights> SharedLoad::MapFile(const PackedFile& file, bool known) {
  BATON_RETURN_IF_ERROR(Populate(file));
  if (!known) BATON_RETURN_IF_ERROR(Compare(file));
  MappingMaker maker(file, images_, dtype_);
  return WeightLoader(job_.config, job_.shape, job_.backend.CanEmbedFromPacked(), maker).Load();
}

absl::Status SharedLoad::Verify(bool own) {
  BATON_ASSIGN_OR_RETURN(const auto file, PackedFile::Open(folder_, key_.name, key_.identity));
  if (file->state() == unfit_) return unfit_for_;
  if (!own && file->CheckedFor(folder_).has_value()) return absl::OkStatus();
  BATON_RETURN_IF_ERROR(Populate(*file));
  BATON_RETURN_IF_ERROR(file->CheckSums());
  verified_ = file->state();
  if (own) written_ = verified_;
  file->NoteChecked(folder_, std::span(&key_.copy, own ? 1 : 0));
  return absl::OkStatus();
}

absl::Status SharedLoad::Populate(const PackedFile& file) const {
  return file.Populate([&](int64_t done) {
    if (job_.progress) job_.progress(done, file.bytes());
  });
}

absl::Status SharedLoad::Compare(const PackedFile& file) {
  spdlog::info("load cache {}: comparing it with this copy of the checkpoint", path());
  absl::Status difference;
  const absl::Status packed =
      PackInto([&](const std::string& name,
                   const PackedImage& image) { return CheckSameImage(file, name, image); },
               &difference);
  BATON_RETURN_IF_ERROR(difference);
  BATON_RETURN_IF_ERROR(packed);
  NoteCopy(file);
  return absl::OkStatus();
}

// Where the lock is not to be had, the next load of this copy compares again.
void SharedLoad::NoteCopy(const PackedFile& file) const {
  constexpr int kTries = 50;
  for (int attempt = 0; attempt < kTries; ++attempt) {
    const auto lock = folder_.TryLock(lock_name());
    if (absl::IsAborted(lock.status())) {
      std::this_thread::sleep_for(kPoll);
      continue;
    }
    if (!lock.ok()) return;
    auto copies = file.CheckedFor(folder_);
    if (!copies.has_value() || std::ranges::find(*copies, key_.copy) != copies->end()) return;
    copies->push_back(key_.copy);
    return file.NoteChecked(folder_, *copies);
  }
}

std::optional<SharedLoad::Lock> SharedLoad::TakeLock() const {
  const base::SteadyClock clock;
  const base::Instant begin = clock.Now();
  for (bool waits = false;; waits = true) {
    auto lock = folder_.TryLock(lock_name());
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

absl::Status SharedLoad::PackInto(const ImageSink& sink, absl::Status* failure) {
  CheckpointSource source(job_.config, job_.files, job_.backend.info(),
                          PackingOrder(job_.config, job_.files), nullptr);
  PackingMaker packing(source, job_.backend, job_.progress);
  SinkMaker maker(packing, images_, dtype_, sink);
  const auto packed =
      WeightLoader(job_.config, job_.shape, job_.backend.CanEmbedFromPacked(), maker).Load();
  *failure = maker.failure();
  return packed.status();
}

absl::StatusOr<bool> SharedLoad::Write() {
  const auto failed = [](const absl::Status& why) {
    spdlog::warn("no load cache is written, the load goes on without: {}",
                 std::string(why.message()));
    return false;
  };
  const base::SteadyClock clock;
  const base::Instant begin = clock.Now();
  // Others wait until the file is checked, for which all of it comes back from the disk.
  auto writer = PackedFileWriter::Create(folder_, key_.name, key_.identity,
                                         {.bytes = MostPackedBytes(job_), .time = patience_ / 2});
  if (!writer.ok()) return failed(writer.status());
  absl::Status unwritten;
  const absl::Status packed =
      PackInto([&](const std::string& name,
                   const PackedImage& image) { return (*writer)->Add(name, image); },
               &unwritten);
  if (!unwritten.ok()) return failed(unwritten);
  BATON_RETURN_IF_ERROR(packed);
  const absl::Status committed = (*writer)->Commit();
  if (!committed.ok()) return failed(committed);
  spdlog::info("load cache written: {}, {} MiB in {:.1f} s", path(),
               folder_.SizeOf(key_.name) >> 20, base::Seconds(clock.Now() - begin));
  return true;
}

absl::StatusOr<std::optional<ModelWeights>> SharedLoad::Run() {
  std::optional<Lock> lock;
  bool waited = false;
  absl::Status unusable;
  while (unusable.ok()) {
    lock.reset();  // whoever else waited looks at the file beside this one
    auto weights = Map();
    if (weights.ok()) return std::optional<ModelWeights>(std::move(weights).value());
    lock = TakeLock();
    if (!lock.has_value()) return std::nullopt;
    waited = waited || lock->waited;
    // While this one waited for the lock, another may have prepared the file.
    unusable = Verify(/*own=*/false);
  }
  // The other one has failed, was ended, or has other weights. What failed once would fail again,
  // one worker after the other: the next start tries it.
  if (waited) {
    const bool none = absl::IsNotFound(unusable);
    spdlog::warn("load cache {}: the other worker left {}: this one packs weights of its own",
                 path(),
                 none ? "none" : "what is not used here: " + std::string(unusable.message()));
    return std::nullopt;
  }
  if (!absl::IsNotFound(unusable)) {
    spdlog::warn("the load cache is not used, and has to be written anew: {}",
                 std::string(unusable.message()));
  }
  BATON_ASSIGN_OR_RETURN(const bool written, Write());
  if (!written) return std::nullopt;
  absl::Status defect = Verify(/*own=*/true);
  if (defect.ok()) {
    auto weights = Map();
    if (weights.ok()) return std::optional<ModelWeights>(std::move(weights).value());
    defect = weights.status();
  }
  spdlog::warn("the load cache that was just written is not used: {}",
               std::string(defect.message()));
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
          .identity = absl::StrCat("packed weights ", packed::kVersion, ", ", key.Contents(),
                                   of_node, ", ", layout),
          .copy = key.checkpoint};
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
