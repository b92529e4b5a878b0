#include "common/transport/pair/nccl_communicator.h"

#include <algorithm>
#include <utility>

#include "common/base/status.h"

namespace baton {
namespace {

// Two-rank transfers are bound by the link, and every channel costs device memory.
constexpr int kMaxCtas = 4;

class NcclCommunicator final : public Communicator {
 public:
  NcclCommunicator(std::shared_ptr<const NcclLibrary> library, nccl::Comm* comm, int rank)
      : library_(std::move(library)), comm_(comm), peer_(1 - rank) {}
  ~NcclCommunicator() override { library_->calls().comm_abort(comm_); }

  absl::StatusOr<bool> InProgress() override {
    nccl::Result result = nccl::kInProgress;
    BATON_RETURN_IF_ERROR(library_->ToStatus(library_->calls().comm_get_async_error(comm_, &result),
                                             "ncclCommGetAsyncError", comm_));
    BATON_RETURN_IF_ERROR(library_->ToStatus(result, "an operation of NCCL", comm_));
    return result == nccl::kInProgress;
  }
  absl::Status Send(const std::byte* bytes, size_t count, nccl::Stream stream) override {
    return library_->ToStatus(
        library_->calls().send(bytes, count, nccl::kInt8, peer_, comm_, stream), "ncclSend", comm_);
  }
  absl::Status Receive(std::byte* bytes, size_t count, nccl::Stream stream) override {
    return library_->ToStatus(
        library_->calls().recv(bytes, count, nccl::kInt8, peer_, comm_, stream), "ncclRecv", comm_);
  }

 private:
  const std::shared_ptr<const NcclLibrary> library_;  // shared with its other communicators
  nccl::Comm* const comm_;
  const int peer_;
};

class NcclCommunicators final : public Communicators {
 public:
  explicit NcclCommunicators(std::shared_ptr<const NcclLibrary> library)
      : library_(std::move(library)) {}

  std::string way() const override { return "nccl"; }
  int version() const override { return library_->version(); }
  absl::Status CheckPeer(int peer_version) const override {
    return CheckPeerVersion(library_->version(), peer_version);
  }

  absl::StatusOr<std::string> MakeUniqueId() override {
    nccl::UniqueId id;
    BATON_RETURN_IF_ERROR(
        library_->ToStatus(library_->calls().get_unique_id(&id), "ncclGetUniqueId", nullptr));
    return std::string(id.internal, sizeof id.internal);
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const std::string& unique_id,
                                                        int rank) override {
    nccl::UniqueId id;
    if (unique_id.size() != sizeof id.internal) {
      return absl::InvalidArgumentError("a unique id of " + std::to_string(unique_id.size()) +
                                        " bytes, expected " + std::to_string(sizeof id.internal));
    }
    std::ranges::copy(unique_id, id.internal);
    nccl::Config config;
    config.blocking = 0;
    config.max_ctas = kMaxCtas;
    nccl::Comm* comm = nullptr;
    BATON_RETURN_IF_ERROR(
        library_->ToStatus(library_->calls().comm_init_rank_config(&comm, 2, id, rank, &config),
                           "ncclCommInitRankConfig", nullptr));
    return std::make_unique<NcclCommunicator>(library_, comm, rank);
  }

 private:
  const std::shared_ptr<const NcclLibrary> library_;
};

}  // namespace

std::unique_ptr<Communicators> MakeNcclCommunicators(std::shared_ptr<const NcclLibrary> library) {
  return std::make_unique<NcclCommunicators>(std::move(library));
}

}  // namespace baton
