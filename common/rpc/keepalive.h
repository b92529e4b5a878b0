#pragma once

// Keepalive of every connection between our processes, in milliseconds. The server accepts pings
// more often than clients send them, or it would answer with GOAWAY "too_many_pings".
namespace baton {

constexpr int kKeepaliveTimeMs = 10'000;
constexpr int kKeepaliveTimeoutMs = 5'000;
constexpr int kServerMinPingIntervalMs = 5'000;
// One attempt to connect, handshakes included.
constexpr int kConnectTimeoutMs = 5'000;

}  // namespace baton
