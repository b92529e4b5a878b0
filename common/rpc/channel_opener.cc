#include "common/rpc/channel_opener.h"

#include <optional>
#include <utility>

#include "common/base/failpoint.h"

namespace baton {
namespace {

// The queue's own bound never refuses: its places are those of the callers.
constexpr size_t kNominalOrders = 1;

}  // namespace

ChannelOpener::ChannelOpener(ChannelOptions options, size_t max_kept)
    : options_(std::move(options)),
      max_kept_(max_kept),
      orders_(kNominalOrders),
      thread_([this] { Run(); }) {}

ChannelOpener::~ChannelOpener() {
  {
    base::MutexLock lock(&mutex_);
    stopping_ = true;
  }
  orders_.Close();
  thread_.join();
}

void ChannelOpener::Open(const std::string& address, Opened opened) {
  if (auto kept = Kept(address)) return opened(std::move(kept));
  orders_.PushReserved({address, std::move(opened)});
}

void ChannelOpener::Run() {
  while (std::optional<Order> order = orders_.PopUntil(base::kNever)) {
    order->opened(Make(order->address));
  }
}

std::shared_ptr<grpc::Channel> ChannelOpener::Kept(const std::string& address) {
  base::MutexLock lock(&mutex_);
  const auto found = kept_.find(address);
  return found == kept_.end() ? nullptr : found->second;
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> ChannelOpener::Make(const std::string& address) {
  {
    base::MutexLock lock(&mutex_);
    if (stopping_) return absl::CancelledError("this process is shutting down");
  }
  // An earlier order may have been for the same address.
  if (auto kept = Kept(address)) return kept;
  base::Failpoint("opening");
  auto channel = MakeChannel(address, options_);
  if (!channel.ok() || max_kept_ == 0) return channel;
  std::map<std::string, std::shared_ptr<grpc::Channel>> dropped;  // destroyed without the lock
  base::MutexLock lock(&mutex_);
  if (kept_.size() >= max_kept_) dropped.swap(kept_);
  kept_[address] = *channel;
  return channel;
}

}  // namespace baton
