// What a metrics.db holds, as rows of text that two runs can be compared by.
#pragma once

#include <cstddef>
#include <cstdio>
#include <filesystem>
#include <fmt/format.h>
#include <sqlite3.h>
#include <string>
#include <vector>

#include "tests/catch.h"

namespace nascent::test {

// The rows of a query, columns joined by |; numbers to the last bit.
inline std::vector<std::string> query(const std::filesystem::path& path, const std::string& sql) {
  sqlite3* db = nullptr;
  REQUIRE(sqlite3_open_v2(path.c_str(), &db, SQLITE_OPEN_READWRITE, nullptr) == SQLITE_OK);
  sqlite3_busy_timeout(db, 10'000);
  sqlite3_stmt* statement = nullptr;
  const int prepared = sqlite3_prepare_v2(db, sql.c_str(), -1, &statement, nullptr);
  INFO(sql << ": " << sqlite3_errmsg(db));
  REQUIRE(prepared == SQLITE_OK);
  std::vector<std::string> rows;
  while (sqlite3_step(statement) == SQLITE_ROW) {
    std::string row;
    for (int i = 0; i < sqlite3_column_count(statement); ++i) {
      const bool real = sqlite3_column_type(statement, i) == SQLITE_FLOAT;
      const unsigned char* text = sqlite3_column_text(statement, i);
      row += (i > 0 ? "|" : "");
      row += real ? fmt::format("{}", sqlite3_column_double(statement, i))
                  : (text ? reinterpret_cast<const char*>(text) : "NULL");
    }
    rows.push_back(row);
  }
  sqlite3_finalize(statement);
  sqlite3_close(db);
  return rows;
}

// Every record and every step as readers see them, the last attempt's; without the seconds.
inline std::vector<std::string> records_of(const std::filesystem::path& path) {
  std::vector<std::string> rows = query(
      path,
      "SELECT p.step, s.probe, s.tap, s.key, s.labels, p.value, p.n, p.se, p.reason FROM points p JOIN series s ON "
      "s.id "
      "= p.series WHERE s.key <> 'seconds' AND p.attempt = (SELECT max(attempt) FROM points WHERE step = p.step AND "
      "series = p.series) ORDER BY 1, 2, 3, 4, 5");
  for (std::string& row : query(path,
                                "SELECT step, tokens, targets, loss, lr, clip FROM steps AS s WHERE attempt = (SELECT "
                                "max(attempt) FROM steps WHERE step = s.step) ORDER BY step")) {
    rows.push_back(std::move(row));
  }
  return rows;
}

// Where two lists first differ, or empty: a failing test prints two rows in place of thousands.
inline std::string difference(const std::vector<std::string>& a, const std::vector<std::string>& b) {
  for (std::size_t i = 0; i < a.size() || i < b.size(); ++i) {
    const std::string left = i < a.size() ? a[i] : "nothing", right = i < b.size() ? b[i] : "nothing";
    if (left != right) return fmt::format("row {}: {} is not {}", i, left, right);
  }
  return "";
}

}  // namespace nascent::test
