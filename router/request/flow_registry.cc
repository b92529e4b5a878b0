#include <algorithm>
#include <utility>

#include "router/request/flow_context.h"

namespace baton {

LengthLimits FlowContext::Limits() const {
  const int32_t healthy = directory->HealthyContext();
  const int32_t known = std::max(healthy, directory->KnownContext());
  return {.context = known > 0 ? known : model.config.max_positions,
          .context_now = healthy > 0 ? healthy : known,
          .input = options.max_input_length,
          .output = options.max_output_length,
          .pool = directory->KnownPool(),
          .pool_now = healthy > 0 ? directory->HealthyPool() : directory->KnownPool(),
          .block = directory->BlockTokens()};
}

bool FlowRegistry::Add(const std::string& tenant, const std::string& id,
                       std::shared_ptr<LiveRequest> request) {
  base::MutexLock lock(&mutex_);
  return requests_.emplace(Key(tenant, id), std::move(request)).second;
}

void FlowRegistry::Remove(const std::string& tenant, const std::string& id) {
  std::shared_ptr<LiveRequest> removed;  // destroyed without the lock
  base::MutexLock lock(&mutex_);
  const auto it = requests_.find(Key(tenant, id));
  if (it == requests_.end()) return;
  removed = std::move(it->second);
  requests_.erase(it);
  removed_.NotifyAll();
}

std::vector<std::shared_ptr<LiveRequest>> FlowRegistry::All() const {
  base::MutexLock lock(&mutex_);
  std::vector<std::shared_ptr<LiveRequest>> requests;
  requests.reserve(requests_.size());
  for (const auto& [key, request] : requests_) requests.push_back(request);
  return requests;
}

std::vector<RequestReport> FlowRegistry::Reports() const {
  std::vector<RequestReport> reports;
  for (const auto& request : All()) request->AddReports(&reports);
  return reports;
}

size_t FlowRegistry::size() const {
  base::MutexLock lock(&mutex_);
  return requests_.size();
}

bool FlowRegistry::WaitEmpty(base::Instant deadline) {
  base::MutexLock lock(&mutex_);
  while (!requests_.empty()) {
    if (!removed_.WaitUntil(&mutex_, deadline)) return requests_.empty();
  }
  return true;
}

}  // namespace baton
