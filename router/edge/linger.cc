#include "router/edge/linger.h"

#include <algorithm>

namespace baton {
namespace {

// How many times as long as for the next part a client has for all of them.
constexpr int kTimesInAll = 20;

}  // namespace

Linger::Linger(grpc::CallbackServerContext* context, const LingerOptions& options)
    : options_(options), call_(std::make_shared<Call>()) {
  base::MutexLock lock(&call_->mutex);
  call_->context = context;
}

void Linger::Begin() {
  const base::Instant now = options_.clock->Now();
  {
    base::MutexLock lock(&call_->mutex);
    call_->progress = now;
    call_->end = now + kTimesInAll * options_.time;
  }
  LookAt(now + options_.time, options_, call_);
}

void Linger::Took() {
  base::MutexLock lock(&call_->mutex);
  call_->progress = options_.clock->Now();
}

void Linger::LookAt(base::Instant when, const LingerOptions& options,
                    const std::weak_ptr<Call>& weak) {
  options.timers->At(when, [options, weak] {
    const auto call = weak.lock();
    if (call == nullptr) return;
    base::Instant next;
    {
      base::MutexLock lock(&call->mutex);
      if (call->context == nullptr) return;
      next = std::min(call->progress + options.time, call->end);
      if (next <= options.clock->Now()) {
        call->context->TryCancel();
        return;
      }
    }
    LookAt(next, options, weak);
  });
}

void Linger::End() {
  base::MutexLock lock(&call_->mutex);
  call_->context = nullptr;
}

}  // namespace baton
