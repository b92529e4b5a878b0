#include "kernels/cuda/group/nccl_group.h"

#include <algorithm>
#include <chrono>
#include <string>
#include <thread>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "common/base/check.h"
#include "common/base/mutex.h"
#include "common/base/status.h"
#include "kernels/step_check.h"
#include "spdlog/spdlog.h"

namespace baton::kernels::cuda {
namespace {

constexpr base::Duration kEndPatience = std::chrono::seconds(10);  // for graphs to be destroyed

// Ends communicators, each on a thread of its own: NCCL first releases the devices that wait in
// sums, and then waits itself until the last captured graph that holds a sum is destroyed. Those
// graphs belong to backends that may still wait for their devices. So nobody else waits here,
// except whoever ends the group for good, and they only until a deadline.
class Ending final {
 public:
  static void Abort(const std::shared_ptr<Ending>& ending,
                    const std::shared_ptr<const NcclLibrary>& library, nccl::Comm* comm) {
    {
      base::MutexLock lock(&ending->mutex_);
      ++ending->under_way_;
    }
    std::thread([ending, library, comm] {
      library->calls().comm_abort(comm);
      base::MutexLock lock(&ending->mutex_);
      --ending->under_way_;
      ending->changed_.NotifyAll();
    }).detach();
  }

  // How many communicators have not ended within `patience`.
  int Await(base::Duration patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    base::MutexLock lock(&mutex_);
    while (under_way_ > 0 && changed_.WaitUntil(&mutex_, deadline)) {
    }
    return under_way_;
  }

 private:
  base::Mutex mutex_;
  base::CondVar changed_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
};

// What the ranks of a group share. Only one thread at a time may call into a communicator: that of
// its rank, or whoever ends the group. The calls only queue work, because NCCL connected the ranks
// when their communicators were made (ConnectGroupsWhenMade), so a lock is never held for long.
class NcclGroup final {
 public:
  NcclGroup(std::shared_ptr<const NcclLibrary> library, std::vector<nccl::Comm*> comms,
            base::Duration patience)
      : library_(std::move(library)),
        patience_(patience),
        ranks_(comms.size()),
        on_host_(MakeHostGroup(static_cast<int>(comms.size()), patience)) {
    for (size_t rank = 0; rank < comms.size(); ++rank) {
      base::MutexLock lock(&ranks_[rank].mutex);
      ranks_[rank].comm = comms[rank];
    }
  }
  ~NcclGroup() {
    Release();
    const base::Duration patience = std::min(patience_, kEndPatience);
    const int left = ending_->Await(patience);
    if (left == 0) return;
    spdlog::warn(
        "{} of {} communicators did not end within {} s and are left behind: a graph that "
        "holds a sum is still there",
        left, ranks_.size(), base::Seconds(patience));
  }

  size_t size() const { return ranks_.size(); }

  absl::Status AllReduceSum(size_t index, std::span<float> values, void* stream) {
    return Queue(index, "ncclAllReduce", [&](nccl::Comm* comm) {
      return library_->calls().all_reduce(values.data(), values.data(), values.size(),
                                          nccl::kFloat32, nccl::kSum, comm, stream);
    });
  }

  absl::Status AllGather(size_t index, std::span<float> values, void* stream) {
    BATON_CHECK(values.size() % size() == 0) << values.size() << " values of " << size();
    const size_t part = values.size() / size();
    return Queue(index, "ncclAllGather", [&](nccl::Comm* comm) {
      return library_->calls().all_gather(values.data() + index * part, values.data(), part,
                                          nccl::kFloat32, comm, stream);
    });
  }

  absl::Status AllReduceSumOnHost(size_t index, std::span<float> values) {
    absl::Status summed = on_host_[index]->AllReduceSumOnHost(values);
    if (!summed.ok()) Abort(summed);
    return summed;
  }

  absl::Status status(size_t index) {
    Rank& rank = ranks_[index];
    absl::Status found;
    {
      base::MutexLock lock(&rank.mutex);
      if (rank.comm == nullptr) return ended();
      nccl::Result result = nccl::kSuccess;
      found = Checked(rank.comm, library_->calls().comm_get_async_error(rank.comm, &result),
                      "ncclCommGetAsyncError");
      if (found.ok()) found = Checked(rank.comm, result, "work over the ranks");
    }
    if (!found.ok()) Abort(found);
    return found;
  }

  void Abort(const absl::Status& why) {
    {
      base::MutexLock lock(&mutex_);
      if (!ended_.ok()) return;
      ended_ = why;
    }
    on_host_[0]->Abort(why);
    Release();
  }

 private:
  struct Rank {
    base::Mutex mutex;
    nccl::Comm* comm ABSL_GUARDED_BY(mutex) = nullptr;  // null when the group has ended
  };

  // Makes a call that queues work. One that fails ends the group.
  absl::Status Queue(size_t index, const char* name,
                     absl::FunctionRef<nccl::Result(nccl::Comm*)> call) {
    Rank& rank = ranks_[index];
    absl::Status queued;
    {
      base::MutexLock lock(&rank.mutex);
      if (rank.comm == nullptr) return ended();
      queued = Checked(rank.comm, call(rank.comm), name);
    }
    if (!queued.ok()) Abort(queued);
    return queued;
  }

  absl::Status Checked(nccl::Comm* comm, nccl::Result result, const char* call) const {
    const absl::Status status = library_->ToStatus(result, call, comm);
    return status.ok() ? status : DeviceFault(std::string(status.message()));
  }

  absl::Status ended() {
    base::MutexLock lock(&mutex_);
    return ended_;
  }

  // Begins to end the communicators, so that devices which wait go on.
  void Release() {
    for (Rank& rank : ranks_) {
      nccl::Comm* comm = nullptr;
      {
        base::MutexLock lock(&rank.mutex);
        comm = std::exchange(rank.comm, nullptr);
      }
      if (comm != nullptr) Ending::Abort(ending_, library_, comm);
    }
  }

  const std::shared_ptr<const NcclLibrary> library_;  // shared with pairs
  const base::Duration patience_;
  // Shared with threads that NCCL may not let go.
  const std::shared_ptr<Ending> ending_ = std::make_shared<Ending>();
  std::vector<Rank> ranks_;
  const std::vector<std::unique_ptr<Collective>> on_host_;  // [ranks]
  base::Mutex mutex_;
  absl::Status ended_ ABSL_GUARDED_BY(mutex_);
};

class NcclRank final : public Collective {
 public:
  NcclRank(std::shared_ptr<NcclGroup> group, size_t rank) : group_(std::move(group)), rank_(rank) {}
  int rank() const override { return static_cast<int>(rank_); }
  int size() const override { return static_cast<int>(group_->size()); }
  absl::Status AllReduceSum(std::span<float> values, void* stream) override {
    return group_->AllReduceSum(rank_, values, stream);
  }
  absl::Status AllGather(std::span<float> values, void* stream) override {
    return group_->AllGather(rank_, values, stream);
  }
  absl::Status AllReduceSumOnHost(std::span<float> values) override {
    return group_->AllReduceSumOnHost(rank_, values);
  }
  absl::Status status() override { return group_->status(rank_); }
  void Abort(const absl::Status& why) override { group_->Abort(why); }

 private:
  const std::shared_ptr<NcclGroup> group_;  // shared by the ranks, which end one by one
  const size_t rank_;
};

// Connects the devices on a thread of its own, because NCCL's call has no deadline.
class Connecting final {
 public:
  Connecting(std::shared_ptr<const NcclLibrary> library, std::span<const int> devices)
      : library_(std::move(library)),
        devices_(devices.begin(), devices.end()),
        comms_(devices.size()) {}

  void Run() {
    const nccl::Result result = library_->calls().comm_init_all(
        comms_.data(), static_cast<int>(devices_.size()), devices_.data());
    base::MutexLock lock(&mutex_);
    status_ = library_->ToStatus(result, "ncclCommInitAll", nullptr);
    over_ = true;
    changed_.NotifyAll();
  }

  // To be called once.
  absl::StatusOr<std::vector<nccl::Comm*>> Await(base::Duration patience) {
    const auto deadline = std::chrono::steady_clock::now() + patience;
    base::MutexLock lock(&mutex_);
    while (!over_) {
      if (changed_.WaitUntil(&mutex_, deadline) || over_) continue;
      return absl::DeadlineExceededError(
          absl::StrCat("NCCL did not connect ", devices_.size(), " GPUs within ",
                       base::Seconds(patience), " s; NCCL_DEBUG=INFO shows what it waits for"));
    }
    BATON_RETURN_IF_ERROR(std::exchange(status_, absl::OkStatus()));
    return std::move(comms_);
  }

 private:
  const std::shared_ptr<const NcclLibrary> library_;
  const std::vector<int> devices_;
  std::vector<nccl::Comm*> comms_;
  base::Mutex mutex_;
  base::CondVar changed_;
  absl::Status status_ ABSL_GUARDED_BY(mutex_);
  bool over_ ABSL_GUARDED_BY(mutex_) = false;
};

}  // namespace

absl::StatusOr<std::vector<std::unique_ptr<Collective>>> MakeNcclGroup(
    std::shared_ptr<const NcclLibrary> library, std::span<const int> devices,
    base::Duration patience) {
  const auto connecting = std::make_shared<Connecting>(library, devices);  // may outlive this call
  std::thread([connecting] { connecting->Run(); }).detach();
  BATON_ASSIGN_OR_RETURN(std::vector<nccl::Comm*> comms, connecting->Await(patience));
  auto group = std::make_shared<NcclGroup>(std::move(library), std::move(comms), patience);
  std::vector<std::unique_ptr<Collective>> ranks;
  for (size_t rank = 0; rank < devices.size(); ++rank) {
    ranks.push_back(std::make_unique<NcclRank>(group, rank));
  }
  return ranks;
}

}  // namespace baton::kernels::cuda
