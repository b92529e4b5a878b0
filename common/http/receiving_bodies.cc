#include "common/http/receiving_bodies.h"

#include <algorithm>
#include <utility>

namespace baton {

void ReceivingBodies::EndLargest(Client* client) {
  ReceivingBody* const largest = *std::ranges::max_element(
      client->bodies, {}, [](const ReceivingBody* body) { return body->bytes_; });
  const size_t freed = std::exchange(largest->bytes_, 0);
  client->bytes -= freed;
  bytes_ -= freed;
  largest->gave_way_ = true;
  largest->give_way_();
}

ReceivingBody::ReceivingBody(ReceivingBodies* all, std::string client,
                             std::function<void()> give_way)
    : all_(all), client_(std::move(client)), give_way_(std::move(give_way)) {
  base::MutexLock lock(&all_->mutex_);
  all_->clients_[client_].bodies.insert(this);
}

ReceivingBody::~ReceivingBody() {
  base::MutexLock lock(&all_->mutex_);
  const auto own = all_->clients_.find(client_);
  own->second.bytes -= bytes_;
  all_->bytes_ -= bytes_;
  own->second.bodies.erase(this);
  if (own->second.bodies.empty()) all_->clients_.erase(own);
}

bool ReceivingBody::GrowTo(size_t bytes, size_t most) {
  base::MutexLock lock(&all_->mutex_);
  if (gave_way_) return false;
  ReceivingBodies::Client& own = all_->clients_.find(client_)->second;
  const size_t more = bytes - std::exchange(bytes_, bytes);
  own.bytes += more;
  all_->bytes_ += more;
  while (all_->bytes_ > most) {
    const auto first = std::ranges::max_element(
        all_->clients_, {}, [](const auto& client) { return client.second.bytes; });
    if (first->second.bytes <= own.bytes) return false;
    all_->EndLargest(&first->second);
  }
  return true;
}

bool ReceivingBody::gave_way() const {
  base::MutexLock lock(&all_->mutex_);
  return gave_way_;
}

}  // namespace baton
