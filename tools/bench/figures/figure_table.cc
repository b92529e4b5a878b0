#include <algorithm>
#include <array>

#include "absl/strings/str_cat.h"
#include "tools/bench/figures/figures.h"

namespace baton::bench {
namespace {

constexpr FigureInfo Of(std::string_view name, std::string_view unit,
                        Summary Figures::*distribution, std::string_view formula,
                        std::string_view purpose) {
  return {.name = name,
          .unit = unit,
          .formula = formula,
          .purpose = purpose,
          .distribution = distribution};
}

constexpr FigureInfo Of(std::string_view name, std::string_view unit, double Figures::*number,
                        std::string_view formula, std::string_view purpose) {
  return {.name = name, .unit = unit, .formula = formula, .purpose = purpose, .number = number};
}

// clang-format off
constexpr std::array kTable = {
    Of("ttft_ms", "ms", &Figures::ttft_ms, "t_1 - t_0",
       "time to first token, as a user feels it: waiting in the client counts"),
    Of("ttft_from_sent_ms", "ms", &Figures::ttft_from_sent_ms, "t_1 - t_sent",
       "the server's part of it; what other tools call TTFT"),
    Of("client_queue_ms", "ms", &Figures::client_queue_ms, "t_sent - t_0",
       "waiting before the request left; large = the load generator was late"),
    Of("ttft_per_prompt_token_ms", "ms/token", &Figures::ttft_per_prompt_token_ms, "(t_1 - t_0) / prompt tokens",
       "compares TTFT over prompts of different lengths"),
    Of("mean_concurrency", "requests", &Figures::mean_concurrency, "integral of requests under way over the window / window",
       "the load at which TTFT and the rest were taken"),
    Of("peak_concurrency", "requests", &Figures::peak_concurrency, "most requests under way at once in the window",
       "memory and slots that the run needed"),
    Of("tpot_ms", "ms", &Figures::tpot_ms, "(E2E - TTFT) / (n - 1), n > 1",
       "mean pace of one answer, as vLLM's TPOT"),
    Of("itl_ms", "ms", &Figures::itl_ms, "t_i+1 - t_i between messages, all requests pooled",
       "every gap; a message of k tokens is one gap, as in vLLM"),
    Of("max_gap_ms", "ms", &Figures::max_gap_ms, "largest gap of a request",
       "the worst stall that a user sees within an answer"),
    Of("e2el_ms", "ms", &Figures::e2el_ms, "t_n - t_0",
       "end-to-end latency to the last token"),
    Of("ntpot_ms", "ms", &Figures::ntpot_ms, "(t_n - t_0) / n",
       "time per token with the wait for the first spread over all"),
    Of("tokens_per_s_per_user", "tokens/s", &Figures::tokens_per_s_per_user, "1 / TPOT",
       "speed of one answer once it runs; answers that came within 1 ms have none"),
    Of("prefill_tokens_per_s", "tokens/s", &Figures::prefill_tokens_per_s, "prompt tokens / TTFT",
       "prefill throughput as a client sees it, queueing and cache hits included"),
    Of("server_prefill_tokens_per_s", "tokens/s", &Figures::server_prefill_tokens_per_s, "(prompt - cached tokens) / prefill time of the server",
       "prefill throughput of what was computed"),
    Of("decode_tokens_per_s", "tokens/s", &Figures::decode_tokens_per_s, "n / (t_n - t_1)",
       "decode throughput of a request as commonly quoted; counts the first token, which prefill made"),
    Of("decode_tokens_per_s_n1", "tokens/s", &Figures::decode_tokens_per_s_n1, "(n - 1) / (t_n - t_1)",
       "decode throughput of the tokens that decoding made"),
    Of("request_throughput", "requests/s", &Figures::request_throughput, "requests that ended in the window / window",
       "work done; below the rate of arrivals = not keeping up"),
    Of("input_throughput", "tokens/s", &Figures::input_throughput, "prompt tokens whose first output token came in the window / window",
       "prompts taken in"),
    Of("output_throughput", "tokens/s", &Figures::output_throughput, "output tokens that arrived in the window / window",
       "tokens made, all users together"),
    Of("total_token_throughput", "tokens/s", &Figures::total_token_throughput, "input_throughput + output_throughput",
       "tokens handled"),
    Of("peak_output_tokens_per_s", "tokens/s", &Figures::peak_output_tokens_per_s, "most output tokens in one second of the window",
       "burst speed, as vLLM's peak"),
    Of("tokens_per_chunk", "tokens", &Figures::tokens_per_chunk, "output tokens / messages",
       "above 1 the gaps are not between tokens: compare TPOT, not ITL"),
    Of("queue_ms", "ms", &Figures::queue_ms, "as the server says",
       "part of TTFT: all waiting before the prompt is computed"),
    Of("prefill_ms", "ms", &Figures::prefill_ms, "as the server says",
       "part of TTFT: computing the prompt"),
    Of("ttft_rest_ms", "ms", &Figures::ttft_rest_ms, "max(0, server TTFT - queue - prefill)",
       "part of TTFT: reserving blocks, waiting within a worker, messages between router and workers"),
    Of("network_ms", "ms", &Figures::network_ms, "ttft_from_sent - server TTFT",
       "part of TTFT: between client and server; not the server's"),
    Of("kv_transfer_ms", "ms", &Figures::kv_transfer_ms, "as the server says: from the first token to the end of the handoff, 0 without one",
       "between first and second token: handing the KV cache to the decode worker"),
    Of("first_decode_ms", "ms", &Figures::first_decode_ms, "max(0, (t_2 - t_1) - transfer), t_2 in a message of its own",
       "between first and second token: what is left; all of it where one worker does both"),
    Of("prompt_len", "tokens", &Figures::prompt_len, "prompt tokens as the server counts",
       "what was asked"),
    Of("output_len", "tokens", &Figures::output_len, "n, output tokens as the server counts, EOS included",
       "what was answered"),
    Of("natural_end_step", "tokens", &Figures::natural_end_step, "step at which EOS was ignored first",
       "where an answer of forced length would have ended"),
    Of("natural_end_share", "share", &Figures::natural_end_share, "requests with a natural end / completed requests",
       "how many answers of forced length were over before they ended"),
    Of("tokens_after_natural_end_share", "share", &Figures::tokens_after_natural_end_share, "sum of max(0, n - natural_end_step) / sum of n",
       "output that no user would have seen"),
    Of("request_goodput", "requests/s", &Figures::request_goodput, "requests within every limit of the SLO that ended in the window / window",
       "useful work"),
    Of("goodput_share", "share", &Figures::goodput_share, "requests scheduled in the window, within every limit / (completed + failed)",
       "how often the promise was kept"),
    Of("failed_share", "share", &Figures::failed_share, "failed / (completed + failed)",
       "requests that got an error"),
    Of("duration_s", "s", &Figures::duration_s, "window: end - start",
       "what the throughputs are divided by"),
};
// clang-format on

}  // namespace

std::span<const FigureInfo> FigureTable() { return kTable; }

std::string ExplainFigures() {
  size_t widest = 0;
  for (const FigureInfo& figure : kTable) widest = std::max(widest, figure.name.size());
  std::string text =
      "t_0 scheduled arrival, t_sent when the request left, t_1 first token, t_2 second token, "
      "t_n last token, n output tokens.\n\n";
  for (const FigureInfo& figure : kTable) {
    const std::string indent(widest + 2, ' ');
    absl::StrAppend(&text, std::string(figure.name),
                    std::string(widest + 2 - figure.name.size(), ' '), std::string(figure.formula),
                    "  [", std::string(figure.unit), "]\n", indent, std::string(figure.purpose),
                    "\n");
  }
  return text;
}

std::string FiguresAsMarkdown() {
  std::string text = "| name | unit | formula | what for |\n|---|---|---|---|\n";
  for (const FigureInfo& figure : kTable) {
    absl::StrAppend(&text, "| `", std::string(figure.name), "` | ", std::string(figure.unit), " | ",
                    std::string(figure.formula), " | ", std::string(figure.purpose), " |\n");
  }
  return text;
}

}  // namespace baton::bench
