#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "baton/worker/v1/status.pb.h"
#include "common/base/clock.h"

namespace baton::testing {

// Many workers in one process, each on a loopback port, of which only the status streams are there:
// each tells a router how it is, never twice the same, as often as workers do and the router wants.
class StatusFleet final {
 public:
  struct Options {
    worker::v1::WorkerRole role = worker::v1::WORKER_ROLE_DECODE;
    int workers = 1;
    worker::v1::KvLayout layout;
    int32_t max_model_len = 4096;
  };
  explicit StatusFleet(const Options& options);
  ~StatusFleet();

  const std::vector<std::string>& addresses() const { return addresses_; }
  int streams() const;       // that are open
  int64_t statuses() const;  // sent so far
  // How many routers' streams asked last for statuses at least so far apart.
  int StreamsThatWant(base::Duration interval) const;

 private:
  struct Service;
  std::unique_ptr<Service> service_;
  std::vector<std::string> addresses_;
};

}  // namespace baton::testing
