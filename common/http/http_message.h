#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baton {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

// A request as it was read: its syntax is right and its sizes are within the limits, no more.
struct HttpRequest {
  std::string method;   // as sent, in capitals for all that are known
  std::string path;     // of the target, up to its '?', as sent
  std::string query;    // what follows the '?'
  HttpHeaders headers;  // in their order
  std::string body;
  std::string peer;                            // the other end: "ip:port", IPv6 in brackets
  std::vector<std::string> certificate_names;  // of the client's certificate, as gRPC's PeerNames
  bool has_certificate = false;                // it showed one, which the authority issued

  // The first header of that name in whatever case; null if there is none.
  const std::string* Find(std::string_view name) const;
  // All values of that name, in their order.
  std::vector<std::string> FindAll(std::string_view name) const;
};

// A whole answer. The server adds Content-Length, Date and what belongs to the connection.
struct HttpReply {
  int status = 200;
  HttpHeaders headers;
  std::string body;
  std::vector<std::string> rest = {};  // of the body, in pieces; each is let go of once it is sent
  // Let go of when the client has all of it or is gone; null: nothing.
  std::shared_ptr<void> held = {};
};

}  // namespace baton
