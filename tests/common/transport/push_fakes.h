#pragma once

#include <gtest/gtest.h>

#include <functional>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "common/base/crc32c.h"
#include "common/base/mutex.h"
#include "common/kv/block_layout.h"
#include "common/rpc/server.h"
#include "common/transport/grpc_stream.h"
#include "grpcpp/impl/service_type.h"

// Both ends of a push for the tests of transports.
namespace baton {

constexpr auto kPatience = std::chrono::seconds(20);
constexpr size_t kMaxBlockBytes = 4 * kMaxPieceBytes;  // of these tests

// A receiver that keeps what arrives: as one string, or in the memory of ranks.
class FakeInbox final : public KvInbox {
 public:
  absl::Status Write(const KvPiece& piece) override {
    base::MutexLock lock(&mutex_);
    while (stalled_) changed_.Wait(&mutex_);
    if (!refuse_pieces_.ok()) return refuse_pieces_;
    EXPECT_LE(piece.size(), kMaxPieceBytes);
    std::string& block = blocks_[piece.ordinal];
    if (piece.offset == 0) block.clear();
    EXPECT_EQ(static_cast<int64_t>(block.size()), piece.offset);
    uint32_t crc = 0;
    for (const std::span<const std::byte> part : piece.parts) {
      crc = base::Crc32c(part, crc);
      block.append(reinterpret_cast<const char*>(part.data()), part.size());
    }
    if (crc != piece.crc32c) return absl::DataLossError("checksum");
    if (const auto ranks = ranks_.find(piece.ordinal); ranks != ranks_.end()) {
      CopyParts(piece.parts,
                Subrange(ranks->second, static_cast<size_t>(piece.offset), piece.size()));
    }
    ++pieces_;
    changed_.NotifyAll();
    return absl::OkStatus();
  }
  absl::StatusOr<ByteParts> BeginWrite(int32_t ordinal, int64_t offset, int64_t size) override {
    base::MutexLock lock(&mutex_);
    while (stalled_) changed_.Wait(&mutex_);
    if (!refuse_pieces_.ok()) return refuse_pieces_;
    if (!refuse_once_.ok()) return std::exchange(refuse_once_, absl::OkStatus());
    std::string& block = blocks_[ordinal];
    // Room for more, so that bytes that are being written are not moved.
    if (offset == 0) block.clear();
    block.reserve(kMaxBlockBytes);
    EXPECT_EQ(static_cast<int64_t>(block.size()), offset);
    EXPECT_LE(offset + size, static_cast<int64_t>(kMaxBlockBytes));
    block.resize(static_cast<size_t>(offset + size));
    if (const auto ranks = ranks_.find(ordinal); ranks != ranks_.end()) {
      return Subrange(ranks->second, static_cast<size_t>(offset), static_cast<size_t>(size));
    }
    return ByteParts{std::as_writable_bytes(std::span(block)).subspan(static_cast<size_t>(offset))};
  }
  void EndWrite(int32_t, int64_t, const absl::Status& written) override {
    std::shared_ptr<KvPushReply> reply;
    {
      base::MutexLock lock(&mutex_);
      if (written.ok()) ++pieces_;
      reply = written.ok() ? nullptr : reply_;
      changed_.NotifyAll();
    }
    if (reply != nullptr) reply->Answer(written);
  }
  void Progress(int32_t computed_tokens) override {
    base::MutexLock lock(&mutex_);
    progress_ = computed_tokens;
    changed_.NotifyAll();
  }
  void Commit(PushCommitment commitment) override {
    std::shared_ptr<KvPushReply> reply;
    {
      base::MutexLock lock(&mutex_);
      commitment_ = std::move(commitment);
      reply = answer_commits_ ? reply_ : nullptr;
      changed_.NotifyAll();
    }
    if (reply != nullptr) reply->Answer(static_cast<int32_t>(blocks_.size()));
  }
  void Closed() override {
    base::MutexLock lock(&mutex_);
    EXPECT_FALSE(closed_) << "Closed twice";
    closed_ = true;
    reply_.reset();
    changed_.NotifyAll();
  }

  bool WaitFor(const std::function<bool()>& done) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    base::MutexLock lock(&mutex_);
    while (!done()) {
      if (!changed_.WaitUntil(&mutex_, deadline)) return done();
    }
    return true;
  }
  void Stall(bool on) {
    base::MutexLock lock(&mutex_);
    stalled_ = on;
    changed_.NotifyAll();
  }

  base::Mutex mutex_;
  base::CondVar changed_;
  std::map<int32_t, std::string> blocks_;  // zeros where a transport writes to `ranks_` itself
  std::map<int32_t, ByteParts> ranks_;     // where those blocks go that are not of one rank
  std::optional<PushCommitment> commitment_;
  std::shared_ptr<KvPushReply> reply_;
  absl::Status refuse_pieces_;
  absl::Status refuse_once_;  // of BeginWrite only
  bool answer_commits_ = true;
  int32_t progress_ = -1;
  int pieces_ = 0;
  bool closed_ = false;
  bool stalled_ = false;
};

class FakeInboxes final : public KvInboxes {
 public:
  absl::StatusOr<std::shared_ptr<KvInbox>> Open(const PushHello& hello,
                                                std::shared_ptr<KvPushReply> reply) override {
    if (!refusal_.ok()) return refusal_;
    hello_ = hello;
    inbox_->reply_ = std::move(reply);
    return std::shared_ptr<KvInbox>(inbox_);
  }
  absl::Status refusal_;
  PushHello hello_;
  std::shared_ptr<FakeInbox> inbox_ = std::make_shared<FakeInbox>();
};

class Observer final : public KvPushObserver {
 public:
  void OnPushDone(absl::Status status) override { done_.set_value(std::move(status)); }
  // The end of the push; a second call of OnPushDone would throw.
  absl::Status Wait() {
    return WaitFor(kPatience) ? future_.get() : absl::DeadlineExceededError("the push did not end");
  }
  bool WaitFor(base::Duration wait) const {
    return future_.wait_for(wait) == std::future_status::ready;
  }
  bool over() const { return WaitFor(base::Duration::zero()); }

 private:
  std::promise<absl::Status> done_;
  std::shared_future<absl::Status> future_{done_.get_future()};
};

// A transport with a receiving end behind it.
class Fixture {
 public:
  virtual ~Fixture() = default;
  virtual KvTransport& transport() = 0;
  virtual std::string address() = 0;
};

class GrpcFixture final : public Fixture {
 public:
  explicit GrpcFixture(KvInboxes* inboxes)
      : service_(MakeKvTransferService(inboxes, false)), transport_({}, &clock_) {
    server_ = *RpcServer::Start({}, {service_.get()});
  }
  KvTransport& transport() override { return transport_; }
  std::string address() override { return server_->address(); }

 private:
  base::SteadyClock clock_;
  std::unique_ptr<grpc::Service> service_;
  std::unique_ptr<RpcServer> server_;
  GrpcStreamTransport transport_;
};

}  // namespace baton
