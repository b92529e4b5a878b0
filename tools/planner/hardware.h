#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "absl/status/statusor.h"

namespace baton::planner {

// A kind of device as its data sheet tells it, with the shares of the sheet's figures that are
// expected to be reached. Times of steps follow from it (see worker_build.h); nothing is measured.
struct Hardware {
  // How devices of one machine exchange sums, which tensor-parallel workers need.
  struct Link {
    double bytes_per_s = 0;  // of a device, one way, as reached
    double latency_us = 0;   // of one sum over all ranks
  };
  struct Power {
    double idle_watts = 0, busy_watts = 0;  // of a device, between and during steps
  };

  std::string name;
  std::string device;                   // as --device: cuda, cpu
  int32_t devices = 1;                  // in one machine, and so the most ranks of a worker
  double memory_bytes = 0;              // of a device
  double memory_share = 0.9;            // of it that a worker may fill, as --gpu-memory-utilization
  double memory_bandwidth = 0;          // bytes per second
  double bandwidth_share = 0;           // of it that steps reach
  std::map<std::string, double> flops;  // per second, by type: bfloat16, float32, float16, fp8
  double flops_share = 0;               // of them that steps reach
  double step_us = 0;              // of every step: launches, and what the host does between two
  double handoff_bytes_per_s = 0;  // of a prefill worker, as reached
  std::optional<Link> link;
  std::optional<Power> power;
  std::optional<double> price_per_hour;  // of a device
};

// Reads
//   {"schema": "baton.hardware/1", "name": "..", "source": "..", "device": "cuda",
//    "devices": 8,
//    "memory_bytes": 8e10, "memory_share": 0.9, "memory_bandwidth": 3e12, "bandwidth_share": 0.8,
//    "flops": {"bfloat16": 1e15}, "flops_share": 0.5, "step_us": 200, "handoff_bytes_per_s": 1e10,
//    "link": {"bytes_per_s": 4e11, "latency_us": 15}, "power": {"idle_watts": 100,
//    "busy_watts": 700}, "price_per_hour": 3}
// where "source" is a note, and it, memory_share, link, power and price_per_hour may be left out.
// INVALID_ARGUMENT names the file and key, what was found and what was expected.
absl::StatusOr<Hardware> ReadHardware(const std::string& path);
absl::StatusOr<Hardware> ParseHardware(const std::string& text, const std::string& where);

}  // namespace baton::planner
