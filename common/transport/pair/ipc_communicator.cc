#include "common/transport/pair/ipc_communicator.h"

#include <cstring>
#include <deque>
#include <optional>
#include <string>
#include <utility>

#include "common/base/status.h"
#include "common/base/ticket.h"
#include "common/transport/pair/ipc_socket.h"

namespace baton {
namespace {

using ipc::Descriptor;
using ipc::Frame;

constexpr int kVersion = 1;
constexpr size_t kIdBytes = 32;
// How many ids may wait for a communicator that never comes, because their pair ended in between.
constexpr size_t kMaxListeners = 64;

// The two ranks only differ in who speaks first, so one class serves both.
class IpcCommunicator final : public Communicator {
 public:
  // Makes rank 0, which receives.
  IpcCommunicator(StagingRing* own, Descriptor listener)
      : own_(own), listener_(std::move(listener)), awaited_(Frame::kRing) {}
  // Makes rank 1, which sends.
  IpcCommunicator(StagingRing* own, Descriptor peer, const Frame& ring)
      : own_(own), peer_(std::move(peer)), out_(ring) {}

  absl::StatusOr<bool> InProgress() override {
    BATON_RETURN_IF_ERROR(Advance());
    return out_.has_value() || awaited_ != 0;
  }

  absl::Status Send(const std::byte* bytes, size_t count, DeviceStream) override {
    out_ = Frame{.kind = Frame::kSend,
                 .offset = bytes - own_->buffer(0),
                 .count = static_cast<int64_t>(count)};
    awaited_ = Frame::kTaken;
    return Advance();
  }

  absl::Status Receive(std::byte* bytes, size_t count, DeviceStream) override {
    target_ = bytes;
    count_ = static_cast<int64_t>(count);
    awaited_ = Frame::kSend;
    return Advance();
  }

 private:
  // Does what can be done now.
  absl::Status Advance() {
    if (!peer_.valid()) {
      BATON_ASSIGN_OR_RETURN(peer_, ipc::Accept(listener_));
      if (!peer_.valid()) return absl::OkStatus();
      listener_ = Descriptor();
    }
    BATON_RETURN_IF_ERROR(Flush());
    if (awaited_ == 0) return absl::OkStatus();
    BATON_ASSIGN_OR_RETURN(const std::optional<Frame> frame, ipc::Read(peer_));
    if (!frame) return absl::OkStatus();
    if (frame->kind != awaited_) {
      return absl::DataLossError("the other process of the pair is out of step");
    }
    awaited_ = 0;
    if (frame->kind == Frame::kRing) return MapRing(*frame);
    if (frame->kind == Frame::kSend) BATON_RETURN_IF_ERROR(Take(*frame));
    return Flush();
  }

  absl::Status Flush() {
    if (!out_) return absl::OkStatus();
    BATON_ASSIGN_OR_RETURN(const bool written, ipc::Write(peer_, *out_));
    if (written) out_.reset();
    return absl::OkStatus();
  }

  absl::Status MapRing(const Frame& frame) {
    BATON_ASSIGN_OR_RETURN(ring_,
                           own_->Map(std::string(frame.handle, frame.handle_bytes), frame.count));
    return absl::OkStatus();
  }

  absl::Status Take(const Frame& frame) {
    if (frame.count != count_ || frame.offset < 0 || frame.offset > ring_->bytes() - count_) {
      return absl::DataLossError("a send of " + std::to_string(frame.count) +
                                 " bytes met a receive of " + std::to_string(count_));
    }
    BATON_RETURN_IF_ERROR(ring_->CopyOut(frame.offset, count_, target_));
    // A sender that gave up has closed the socket before it used its buffer again.
    BATON_RETURN_IF_ERROR(ipc::CheckSilent(peer_));
    out_ = Frame{.kind = Frame::kTaken};
    return absl::OkStatus();
  }

  StagingRing* const own_;
  Descriptor listener_;  // rank 0's, until the peer has come
  Descriptor peer_;
  std::optional<Frame> out_;          // not written yet
  std::unique_ptr<MappedRing> ring_;  // rank 0's view of the sender's buffers
  std::byte* target_ = nullptr;
  int64_t count_ = 0;
  uint32_t awaited_ = 0;  // the frame that ends what is in progress; 0 when nothing is
};

class IpcCommunicators final : public Communicators {
 public:
  explicit IpcCommunicators(StagingRing* ring) : ring_(ring) {}

  std::string way() const override { return "cuda_ipc"; }
  int version() const override { return kVersion; }
  absl::Status CheckPeer(int peer_version) const override {
    if (peer_version == kVersion) return absl::OkStatus();
    return absl::FailedPreconditionError(
        "the prefill worker speaks cuda_ipc version " + std::to_string(peer_version) +
        ", the decode worker " + std::to_string(kVersion) + "; run the same release of both");
  }

  absl::StatusOr<std::string> MakeUniqueId() override {
    std::string id = DrawId();
    BATON_ASSIGN_OR_RETURN(Descriptor listener, ipc::Listen(id));
    listeners_.emplace_back(id, std::move(listener));
    if (listeners_.size() > kMaxListeners) listeners_.pop_front();
    return id;
  }

  absl::StatusOr<std::unique_ptr<Communicator>> Connect(const std::string& unique_id,
                                                        int rank) override {
    if (unique_id.size() != kIdBytes) {
      return absl::InvalidArgumentError("a unique id of " + std::to_string(unique_id.size()) +
                                        " bytes, expected " + std::to_string(kIdBytes));
    }
    if (rank == 0) {
      BATON_ASSIGN_OR_RETURN(Descriptor listener, TakeListener(unique_id));
      return std::make_unique<IpcCommunicator>(ring_, std::move(listener));
    }
    BATON_ASSIGN_OR_RETURN(const Frame ring, DescribeRing());
    BATON_ASSIGN_OR_RETURN(Descriptor peer, ipc::Dial(unique_id));
    return std::make_unique<IpcCommunicator>(ring_, std::move(peer), ring);
  }

 private:
  static std::string DrawId() {
    constexpr char kHex[] = "0123456789abcdef";
    std::string id;
    for (uint64_t bits : {RandomBits(), RandomBits()}) {
      for (int i = 0; i < 16; ++i, bits >>= 4) id.push_back(kHex[bits & 15]);
    }
    return id;
  }

  absl::StatusOr<Descriptor> TakeListener(const std::string& id) {
    for (auto& [of, listener] : listeners_) {
      if (of != id) continue;
      Descriptor taken = std::move(listener);
      std::erase_if(listeners_, [&](const auto& entry) { return entry.first == id; });
      return taken;
    }
    return absl::NotFoundError("this process made no such unique id, or too long ago");
  }

  absl::StatusOr<Frame> DescribeRing() {
    BATON_ASSIGN_OR_RETURN(const std::string handle, ring_->Export());
    if (handle.size() > ipc::kMaxHandleBytes) {
      return absl::InternalError("a handle of " + std::to_string(handle.size()) +
                                 " bytes does not fit its message");
    }
    Frame frame{.kind = Frame::kRing,
                .handle_bytes = static_cast<uint32_t>(handle.size()),
                .count = ring_->ring_bytes()};
    std::memcpy(frame.handle, handle.data(), handle.size());
    return frame;
  }

  StagingRing* const ring_;
  std::deque<std::pair<std::string, Descriptor>> listeners_;  // oldest first
};

}  // namespace

std::unique_ptr<Communicators> MakeIpcCommunicators(StagingRing* ring) {
  return std::make_unique<IpcCommunicators>(ring);
}

}  // namespace baton
