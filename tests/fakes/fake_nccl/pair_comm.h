#pragma once

#include <string>

#include "tests/fakes/fake_nccl/comm.h"

namespace baton::nccl {

// An id whose rank 0 listens from now on, in this process.
Result MakeUniqueId(UniqueId* id);

// Two ranks, of any processes of this host, joined by a Unix socket. As NCCL's non-blocking
// communicators, it takes no operation while one is in progress.
struct PairComm final : Comm {
  PairComm(const UniqueId& unique_id, int own_rank, std::string how)
      : id(unique_id), rank(own_rank), action(std::move(how)) {}
  ~PairComm() override;
  bool Queues() const override { return false; }

 protected:
  bool Connect() override;
  bool Carry(const Operation& operation) override;

 private:
  // False when aborted.
  bool Ready(int descriptor, short events);
  bool Move(bool is_send, std::byte* bytes, size_t count);

  const UniqueId id;
  const int rank;
  const std::string action;
  int fd = -1;
};

}  // namespace baton::nccl
