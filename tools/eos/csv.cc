#include "tools/eos/csv.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <system_error>

#include "absl/strings/str_cat.h"
#include "common/base/output_file.h"
#include "common/base/status.h"
#include "common/eos/eos_fields.h"
#include "common/eos/flat_json.h"
#include "tools/eos/row_source.h"

namespace baton {
namespace {

constexpr size_t kWriteBytes = size_t{1} << 20;
constexpr size_t kColumns = 20;

// Spreadsheets compute what begins so, and a client chose the id of its request.
bool LooksLikeAFormula(std::string_view text) {
  return !text.empty() && std::string_view("=+-@\t\r").find(text[0]) != std::string_view::npos;
}

void AppendQuoted(std::string_view text, std::string* out) {
  // An empty text has quotes, for an empty cell is null.
  if (!text.empty() && text.find_first_of("\",\n\r") == std::string_view::npos &&
      !LooksLikeAFormula(text)) {
    out->append(text);
    return;
  }
  out->push_back('"');
  if (LooksLikeAFormula(text)) out->push_back('\'');
  for (const char c : text) {
    if (c == '"') out->push_back('"');
    out->push_back(c);
  }
  out->push_back('"');
}

absl::Status WriteOut(std::string* text, OutputFile* file) {
  BATON_RETURN_IF_ERROR(file->Write(*text));
  text->clear();
  return file->Flush();
}

absl::StatusOr<CsvResult> WriteCsv(RowSource* rows, OutputFile* file) {
  CsvResult result;
  std::string text = CsvHeader();
  EosLogRow row;
  while (true) {
    BATON_ASSIGN_OR_RETURN(const RowSource::Got got, rows->Next(&row));
    if (got == RowSource::Got::kEnd) break;
    if (got == RowSource::Got::kNoRow) {
      return MakeError(absl::StatusCode::kInvalidArgument, {},
                       absl::StrCat(rows->Place(), " is no row: ", rows->problem(),
                                    "; baton eos validate ", rows->path()));
    }
    AppendCsvLine(rows->line(), &text);
    ++result.rows;
    if (text.size() >= kWriteBytes) BATON_RETURN_IF_ERROR(WriteOut(&text, file));
  }
  BATON_RETURN_IF_ERROR(WriteOut(&text, file));
  result.rest = rows->RestText(rows->rest());
  return result;
}

}  // namespace

std::string CsvHeader() {
  std::string header;
  for (const EosField& field : EosFields()) {
    absl::StrAppend(&header, header.empty() ? "" : ",", std::string(field.name));
  }
  return header + "\n";
}

void AppendCsvLine(std::string_view row, std::string* out) {
  std::array<std::string, kColumns> cells;
  ReadFlatJson(row, [&cells](std::string& key, FlatValue& value) {
    const auto field = std::ranges::find(EosFields(), key, &EosField::name);
    if (field == EosFields().end()) return absl::OkStatus();
    std::string& cell = cells[static_cast<size_t>(field - EosFields().begin())];
    cell.clear();
    if (value.kind == FlatValue::Kind::kText) {
      AppendQuoted(value.text, &cell);
    } else if (value.kind != FlatValue::Kind::kNull) {
      cell = value.Json();
    }
    return absl::OkStatus();
  }).IgnoreError();  // callers gave a row that was read before
  for (size_t i = 0; i < kColumns; ++i) {
    if (i > 0) out->push_back(',');
    out->append(cells[i]);
  }
  out->push_back('\n');
}

absl::StatusOr<CsvResult> ConvertToCsv(const LogFiles& log, const std::string& out) {
  BATON_ASSIGN_OR_RETURN(RowSource rows, RowSource::Open(log));
  std::error_code unknown;  // then opening it says why
  if (std::filesystem::equivalent(log.name, out, unknown) || IsFileOfLog(log.name, out)) {
    return MakeError(
        absl::StatusCode::kInvalidArgument, {},
        absl::StrCat("--out ", out, " is the log itself or a file of it; name another file"));
  }
  BATON_ASSIGN_OR_RETURN(const auto file, OutputFile::Create(out));
  BATON_ASSIGN_OR_RETURN(CsvResult result, WriteCsv(&rows, file.get()));
  BATON_RETURN_IF_ERROR(file->Finish());
  return result;
}

}  // namespace baton
