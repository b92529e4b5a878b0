#pragma once

#include <cstdint>

#include "tools/bench/load/load_generator.h"

namespace baton::bench {

// A server whose answers are known by theory, in virtual time: `servers` places, each serves one
// request at a time for an exponential time of mean 1 / `service_rate`, first come first served.
// A request's first token comes when its service starts, its second and last when it ends: TTFT is
// the wait.
struct MmcServer {
  int servers = 1;
  double service_rate = 1;

  double capacity() const { return servers * service_rate; }
  // An open loop of Poisson arrivals, until all are served.
  LoadResult Serve(double rate, int64_t requests, uint64_t seed) const;
  // A closed loop: `users` requests are under way, and each that was answered is followed at once
  // by another.
  LoadResult ServeUsers(int users, int64_t requests, uint64_t seed) const;

  // P(wait > seconds) in the steady state: Erlang's C formula times the exponential tail.
  double WaitsLonger(double rate, double seconds) const;
  // The rate of arrivals at which that probability is `share`.
  double Knee(double seconds, double share) const;
  // The same of a closed loop: every request finds users - 1 others there, so that it waits for
  // users - servers departures at a rate of capacity(): an Erlang law.
  double UserWaitsLonger(int users, double seconds) const;
};

}  // namespace baton::bench
