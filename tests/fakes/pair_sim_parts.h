#pragma once

#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <vector>

#include "common/transport/pair/pair_parcel.h"
#include "tests/fakes/pair_sim.h"

namespace baton {

// What is in flight of one parcel.
struct SimParcel {
  ParcelHeader header;
  std::vector<std::vector<std::byte>> bytes;
};

struct PairSim::Operation {
  std::shared_ptr<Device> device;
  ParcelKey key;
  int buffer = 0;
  SimParcel parcel;  // of a send
  bool stalled = false, fails = false;
};

struct PairSim::Comm {
  bool joined[2] = {};
  bool gone[2] = {};
  std::shared_ptr<Device> devices[2];
  uint64_t epochs[2] = {};
  PairId pairs[2] = {};
  std::deque<Operation> sends, receives;
};

struct PairSim::Device {
  bool is_sender = true;
  int node = 0;
  bool dead = false;  // its process is
  bool hung = false;  // its thread is
  bool busy = false;
  std::deque<DeviceCommand> commands;
  std::map<std::pair<PairId, uint64_t>, std::shared_ptr<Comm>> comms;
  std::map<int, SimParcel> buffers;  // what staging buffers hold
  std::map<int, ParcelKey> in_use;   // buffers of posted operations
  std::deque<ParcelKey> stream;      // launched sends of all its pairs, of which the first moves
  std::optional<AbortPair> leaving;  // the call for it waits for sends that lie in front
};

struct PairSim::Stream {
  int sender = 0, receiver = 0;
  PairId sender_pair = 0, receiver_pair = 0;
  base::Instant to_sender_at{}, to_receiver_at{};
  bool closing = false, closed = false;
};

struct PairSim::Sender {
  int life = 0;
  std::unique_ptr<PairSender> machine;
  std::shared_ptr<Device> device;
  std::map<PairId, std::shared_ptr<Stream>> streams;
};

struct PairSim::Receiver {
  int life = 0;
  uint64_t incarnation = 0;
  std::unique_ptr<PairReceiver> machine;
  std::shared_ptr<Device> device;
  std::map<PairId, std::shared_ptr<Stream>> streams;
};

struct PairSim::PushState {
  uint64_t id = 0;
  int sender = 0, receiver = 0, life = 0;
  Ticket ticket;
  std::vector<std::vector<std::byte>> source, target;
  std::vector<int64_t> settled, done;  // bytes of each block
  size_t fed = 0;
  bool cancelled = false, returned = false, ended = false, released = false;
  bool orphaned = false;  // its process died
  bool detached = false, freed = false;
  int writing = 0;
};

}  // namespace baton
