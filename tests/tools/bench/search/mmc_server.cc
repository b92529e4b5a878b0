#include "tests/tools/bench/search/mmc_server.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <random>
#include <vector>

namespace baton::bench {
namespace {

using Ends = std::priority_queue<double, std::vector<double>, std::greater<>>;

RequestRecord Record(int64_t index, double arrival, double start, double end) {
  RequestRecord record;
  record.index = index;
  record.scheduled = record.sent = arrival;
  record.ended = end;
  record.chunks = {{start, 1}, {end, 1}};
  record.prompt_tokens = record.planned_prompt_tokens = 1;
  record.output_tokens = record.max_tokens = 2;
  record.finish_reason = "length";
  return record;
}

LoadResult Finished(std::vector<RequestRecord> records) {
  LoadResult load;
  load.records = std::move(records);
  load.lag_ms.assign(load.records.size(), 0.0);
  for (const RequestRecord& record : load.records) {
    load.duration_s = std::max(load.duration_s, record.ended);
  }
  return load;
}

}  // namespace

LoadResult MmcServer::Serve(double rate, int64_t requests, uint64_t seed) const {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> gap(rate);
  std::exponential_distribution<double> service(service_rate);
  Ends busy;  // when each place is free; fewer than `servers` when some never were used
  std::vector<RequestRecord> records;
  double arrival = 0;
  for (int64_t i = 0; i < requests; ++i) {
    arrival += gap(random);
    double start = arrival;
    if (static_cast<int>(busy.size()) == servers) {
      start = std::max(arrival, busy.top());
      busy.pop();
    }
    const double end = start + service(random);
    busy.push(end);
    records.push_back(Record(i, arrival, start, end));
  }
  return Finished(std::move(records));
}

LoadResult MmcServer::ServeUsers(int users, int64_t requests, uint64_t seed) const {
  std::mt19937_64 random(seed);
  std::exponential_distribution<double> service(service_rate);
  Ends free_at;
  Ends idle_users;
  for (int i = 0; i < servers; ++i) free_at.push(0);
  for (int i = 0; i < users; ++i) idle_users.push(0);
  std::vector<RequestRecord> records;
  for (int64_t i = 0; i < requests; ++i) {
    const double arrival = idle_users.top();
    idle_users.pop();
    const double start = std::max(arrival, free_at.top());
    free_at.pop();
    const double end = start + service(random);
    free_at.push(end);
    idle_users.push(end);
    records.push_back(Record(i, arrival, start, end));
  }
  return Finished(std::move(records));
}

double MmcServer::WaitsLonger(double rate, double seconds) const {
  const double offered = rate / service_rate;
  if (offered >= servers) return 1;
  double blocking = 1;  // Erlang's B, by its recursion
  for (int i = 1; i <= servers; ++i) blocking = offered * blocking / (i + offered * blocking);
  const double waits = blocking / (1 - offered / servers * (1 - blocking));
  return waits * std::exp(-(capacity() - rate) * seconds);
}

double MmcServer::Knee(double seconds, double share) const {
  double low = 0;
  double high = capacity();
  for (int i = 0; i < 100; ++i) {
    const double middle = (low + high) / 2;
    (WaitsLonger(middle, seconds) <= share ? low : high) = middle;
  }
  return low;
}

double MmcServer::UserWaitsLonger(int users, double seconds) const {
  const int departures = users - servers;
  double tail = 0;
  double term = std::exp(-capacity() * seconds);
  for (int k = 0; k < departures; ++k) {
    tail += term;
    term *= capacity() * seconds / (k + 1);
  }
  return tail;
}

}  // namespace baton::bench
