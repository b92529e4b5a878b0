#pragma once

#include <functional>
#include <vector>

#include "tools/generate/generate_client.h"

namespace baton {

// Sends `requests`, at most `concurrency` at a time, and hands over the outcomes in the order of
// the requests, in the calling thread, each as soon as it and all before it are there. When
// `on_outcome` returns false it sends no more, and waits for what is under way.
void RunPrompts(GenerateClient* client, const std::vector<PromptRequest>& requests,
                int32_t concurrency, const std::function<bool(Outcome)>& on_outcome);

}  // namespace baton
