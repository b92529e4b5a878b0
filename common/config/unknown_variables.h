#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace baton {

// One line for each variable BATON_* of `environment` that is none of `known` but is spelled much
// like one of them: it is ignored, which its author does not expect. Other unknown ones are not
// mentioned, and neither are those that Kubernetes makes for a service named baton-…, whatever they
// look like.
std::vector<std::string> UnknownVariableWarnings(
    const std::map<std::string, std::string>& environment, const std::vector<std::string>& known);

// Whether a value is the address of a Kubernetes service: "tcp://10.0.0.1:50051".
bool IsServiceLink(std::string_view value);

}  // namespace baton
