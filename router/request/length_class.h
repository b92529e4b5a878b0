#pragma once

#include <string>

#include "router/edge/request_spec.h"

namespace baton {

// The class of a request whose length workers learn, from what is known before its first token:
// "chat" or "text", the power of two at or above its max_tokens ("open" where it gave none), and
// its tenant, as in "chat/256/default".
std::string LengthClassOf(const RequestSpec& spec);

}  // namespace baton
