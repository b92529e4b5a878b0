#include "tests/common/model/scaling_table.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace baton::test {
namespace {

struct ScalingColumn {
  std::string title;
  double value = 0;
};

// The figures of a run in the order of the columns.
std::vector<ScalingColumn> ColumnsOf(const nlohmann::json& run) {
  const nlohmann::json& limits = run.at("limits");
  std::vector<ScalingColumn> columns = {
      {"memory, GB/s", limits.at("copy_bytes_per_s").get<double>() / 1e9},
      {"matmul, GFLOP/s", limits.at("matmul_flops_per_s").get<double>() / 1e9}};
  for (const nlohmann::json& prefill : run.at("prefill")) {
    columns.push_back({"prefill, tokens/s", prefill.at("tokens_per_s").get<double>()});
  }
  for (const nlohmann::json& decode : run.at("decode")) {
    columns.push_back({absl::StrCat("decode, batch ", decode.at("batch").get<int>(), ", tokens/s"),
                       decode.at("tokens_per_s").get<double>()});
  }
  return columns;
}

}  // namespace

std::string ScalingTable(std::span<const nlohmann::json> runs) {
  if (runs.empty()) return "";
  const std::vector<ScalingColumn> first = ColumnsOf(runs[0]);
  std::string table = "| threads |";
  std::string line = "|---|";
  for (const ScalingColumn& column : first) {
    absl::StrAppend(&table, " ", column.title, " |");
    absl::StrAppend(&line, "---|");
  }
  absl::StrAppend(&table, "\n", line, "\n");
  for (const nlohmann::json& run : runs) {
    absl::StrAppend(&table, "| ", run.at("threads").get<int>(), " |");
    const std::vector<ScalingColumn> columns = ColumnsOf(run);
    for (size_t i = 0; i < columns.size(); ++i) {
      absl::StrAppendFormat(&table, " %.1f (%.2f) |", columns[i].value,
                            columns[i].value / first[i].value);
    }
    absl::StrAppend(&table, "\n");
  }
  return table;
}

}  // namespace baton::test
