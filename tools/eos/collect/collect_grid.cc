#include "tools/eos/collect/collect_grid.h"

#include <cstdlib>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton {
namespace {

constexpr uint64_t kSeedStep = 1'000'000;

std::string IdOf(const CollectPrompt& prompt, const CollectRequest& request,
                 const CollectGrid& grid, int32_t seed) {
  const std::string limit = request.max_tokens ? absl::StrCat("-m", *request.max_tokens) : "";
  return absl::StrFormat("%s-%06d-t%s-p%g%s-s%d", prompt.family, request.prompt,
                         TemperatureText(request.temperature), grid.top_p, limit, seed);
}

}  // namespace

std::vector<CollectRequest> RequestsOf(const CollectPrompts& prompts, const CollectGrid& grid) {
  std::vector<CollectRequest> requests;
  for (size_t place = 0; place < prompts.prompts.size(); ++place) {
    const CollectPrompt& prompt = prompts.prompts[place];
    for (const float temperature : grid.temperatures) {
      for (int32_t seed = grid.first_seed; seed < grid.first_seed + grid.seeds; ++seed) {
        CollectRequest request = {
            .id = {},
            .prompt = place,
            .seed = kSeedStep * static_cast<uint64_t>(seed) + place,
            .temperature = temperature,
            .max_tokens = prompt.max_tokens ? prompt.max_tokens : grid.max_tokens};
        request.id = IdOf(prompt, request, grid, seed);
        requests.push_back(std::move(request));
      }
    }
  }
  return requests;
}

std::string TemperatureText(float temperature) { return absl::StrFormat("%g", temperature); }

PromptRequest ToSend(const CollectPrompt& prompt, const CollectRequest& request,
                     const CollectGrid& grid) {
  PromptRequest send = prompt.request;
  send.spec.set_request_id(request.id);
  send.spec.mutable_sampling()->set_temperature(request.temperature);
  send.spec.mutable_sampling()->set_top_p(grid.top_p);
  send.spec.mutable_sampling()->set_seed(request.seed);
  if (request.max_tokens) send.spec.mutable_stop()->set_max_tokens(*request.max_tokens);
  send.spec.mutable_eos()->set_steps(true);
  send.spec.mutable_eos()->set_probe(grid.hidden);
  return send;
}

nlohmann::ordered_json GridJson(const CollectGrid& grid) {
  nlohmann::ordered_json temperatures = nlohmann::ordered_json::array();
  for (const float temperature : grid.temperatures) temperatures.push_back(AsGiven(temperature));
  return {{"first_seed", grid.first_seed},
          {"seeds", grid.seeds},
          {"temperatures", temperatures},
          {"top_p", AsGiven(grid.top_p)},
          {"max_tokens", grid.max_tokens ? nlohmann::ordered_json(*grid.max_tokens)
                                         : nlohmann::ordered_json(nullptr)},
          {"hidden", grid.hidden}};
}

double AsGiven(float value) { return std::strtod(absl::StrFormat("%.7g", value).c_str(), nullptr); }

}  // namespace baton
