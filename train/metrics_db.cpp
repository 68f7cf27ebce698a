#include "train/metrics_db.h"

#include <cmath>
#include <sqlite3.h>
#include <utility>

#include "kernels/error.h"

namespace nascent {
namespace {

constexpr const char* kSchema = R"(
  PRAGMA application_id = 1851880291;  -- "nasc"
  PRAGMA user_version = 1;
  CREATE TABLE runs (
    attempt INTEGER PRIMARY KEY, name TEXT NOT NULL, started TEXT NOT NULL, version TEXT NOT NULL,
    config TEXT NOT NULL);
  CREATE TABLE series (
    id INTEGER PRIMARY KEY, probe TEXT NOT NULL, tap TEXT NOT NULL, key TEXT NOT NULL, labels TEXT NOT NULL,
    UNIQUE (probe, key, labels, tap));
  CREATE TABLE points (
    step INTEGER NOT NULL, series INTEGER NOT NULL REFERENCES series(id), attempt INTEGER NOT NULL,
    value REAL, n INTEGER, se REAL, reason TEXT,
    PRIMARY KEY (step, series, attempt)) WITHOUT ROWID;
  CREATE TABLE steps (
    step INTEGER NOT NULL, attempt INTEGER NOT NULL, tokens INTEGER NOT NULL, targets INTEGER NOT NULL,
    loss REAL, lr REAL, clip REAL, seconds REAL,
    PRIMARY KEY (step, attempt)) WITHOUT ROWID;
  CREATE TABLE events (
    step INTEGER NOT NULL, attempt INTEGER NOT NULL, time TEXT NOT NULL, kind TEXT NOT NULL, text TEXT NOT NULL);
)";

// Wait this long for another process's lock before giving up.
constexpr int kBusyMilliseconds = 10'000;

void bind_value(sqlite3_stmt* statement, int at, std::int64_t value) { sqlite3_bind_int64(statement, at, value); }

// SQLite keeps NaN as NULL.
void bind_value(sqlite3_stmt* statement, int at, double value) { sqlite3_bind_double(statement, at, value); }

// The text must live until the statement has run.
void bind_value(sqlite3_stmt* statement, int at, const std::string& text) {
  sqlite3_bind_text(statement, at, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
}

template <class T>
void bind_value(sqlite3_stmt* statement, int at, const std::optional<T>& value) {
  if (value) {
    bind_value(statement, at, *value);
  } else {
    sqlite3_bind_null(statement, at);
  }
}

template <class... Args>
void bind_all(sqlite3_stmt* statement, const Args&... args) {
  int at = 0;
  (bind_value(statement, ++at, args), ...);
}

std::string text_column(sqlite3_stmt* statement, int at) {
  const unsigned char* text = sqlite3_column_text(statement, at);
  return text ? reinterpret_cast<const char*>(text) : "";
}

// Why a record has no value; nothing when it has one.
std::optional<std::string> reason_of(const Record& record) {
  if (record.value && !std::isnan(*record.value)) return std::nullopt;
  if (!record.reason.empty()) return record.reason;
  return record.value ? "not a number" : "undefined";
}

}  // namespace

void MetricsDb::Close::operator()(sqlite3* db) const { sqlite3_close(db); }
void MetricsDb::Close::operator()(sqlite3_stmt* statement) const { sqlite3_finalize(statement); }

MetricsDb::MetricsDb(const std::filesystem::path& path, int flags) : path_(path.string()) {
  sqlite3* db = nullptr;
  const int status = sqlite3_open_v2(path_.c_str(), &db, flags, nullptr);
  db_.reset(db);
  if (status != SQLITE_OK) throw input_error("{}: cannot open: {}", path_, sqlite3_errstr(status));
  sqlite3_busy_timeout(db, kBusyMilliseconds);
}

MetricsDb::~MetricsDb() = default;

MetricsDb MetricsDb::create(const std::filesystem::path& path) {
  if (std::filesystem::exists(path)) throw input_error("{}: exists already", path.string());
  MetricsDb db(path, SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE);
  db.execute("PRAGMA journal_mode = WAL");
  db.in_transaction([&] { db.execute(kSchema); });
  db.prepare_to_write();
  return db;
}

MetricsDb MetricsDb::append(const std::filesystem::path& path) {
  open_for_reading(path);  // refuses what is not one
  MetricsDb db(path, SQLITE_OPEN_READWRITE);
  db.execute("PRAGMA journal_mode = WAL");
  db.execute("DROP INDEX IF EXISTS points_by_series");  // finish() makes it again: writing with it is far slower
  db.prepare_to_write();
  return db;
}

MetricsDb MetricsDb::open_for_reading(const std::filesystem::path& path) {
  MetricsDb db(path, SQLITE_OPEN_READONLY);
  sqlite3_stmt* statement = nullptr;
  const int status = sqlite3_prepare_v2(db.db_.get(), "PRAGMA user_version", -1, &statement, nullptr);
  const Statement version(statement);
  if (status != SQLITE_OK || sqlite3_step(statement) != SQLITE_ROW || sqlite3_column_int(statement, 0) != 1) {
    throw input_error("{}: not a metrics.db that this version writes", path.string());
  }
  return db;
}

void MetricsDb::prepare_to_write() {
  execute("PRAGMA synchronous = NORMAL");
  insert_series_ = prepare(
      "INSERT INTO series (probe, tap, key, labels) VALUES (?, ?, ?, ?) "
      "ON CONFLICT DO UPDATE SET id = id RETURNING id");
  insert_point_ = prepare("INSERT INTO points VALUES (?, ?, ?, ?, ?, ?, ?)");
  insert_step_ = prepare("INSERT INTO steps VALUES (?, ?, ?, ?, ?, ?, ?, ?)");
  insert_event_ = prepare("INSERT INTO events VALUES (?, ?, strftime('%Y-%m-%dT%H:%M:%fZ'), ?, ?)");
}

// ---- SQLite

Error MetricsDb::failure() const { return machine_error("{}: {}", path_, sqlite3_errmsg(db_.get())); }

void MetricsDb::execute(const char* sql) const {
  if (sqlite3_exec(db_.get(), sql, nullptr, nullptr, nullptr) != SQLITE_OK) throw failure();
}

MetricsDb::Statement MetricsDb::prepare(const char* sql) const {
  sqlite3_stmt* statement = nullptr;
  if (sqlite3_prepare_v2(db_.get(), sql, -1, &statement, nullptr) != SQLITE_OK) throw failure();
  return Statement(statement);
}

bool MetricsDb::row(const Statement& statement) const {
  const int status = sqlite3_step(statement.get());
  if (status == SQLITE_ROW || status == SQLITE_DONE) return status == SQLITE_ROW;
  const Error error = failure();
  sqlite3_reset(statement.get());
  throw error;
}

void MetricsDb::run(const Statement& statement) const {
  row(statement);
  sqlite3_reset(statement.get());
}

template <class F>
void MetricsDb::in_transaction(F&& write) {
  execute("BEGIN IMMEDIATE");
  try {
    write();
    execute("COMMIT");
  } catch (...) {
    // Ids given in this transaction are void. After some errors SQLite has rolled back by itself, so no error
    // here matters.
    sqlite3_exec(db_.get(), "ROLLBACK", nullptr, nullptr, nullptr);
    series_.clear();
    throw;
  }
}

// ---- Writing

std::int64_t MetricsDb::begin_run(const std::string& name, const std::string& version, const std::string& config) {
  const Statement insert =
      prepare("INSERT INTO runs (name, started, version, config) VALUES (?, strftime('%Y-%m-%dT%H:%M:%SZ'), ?, ?)");
  bind_all(insert.get(), name, version, config);
  run(insert);
  attempt_ = sqlite3_last_insert_rowid(db_.get());
  return attempt_;
}

std::int64_t MetricsDb::series_of(const Record& record) {
  series_name_.clear();
  for (const std::string* part : {&record.probe, &record.tap, &record.key, &record.labels}) {
    series_name_.append(*part).push_back('\n');
  }
  const auto known = series_.find(series_name_);
  if (known != series_.end()) return known->second;
  bind_all(insert_series_.get(), record.probe, record.tap, record.key, record.labels);
  row(insert_series_);
  const std::int64_t id = sqlite3_column_int64(insert_series_.get(), 0);
  run(insert_series_);
  series_.emplace(series_name_, id);
  return id;
}

void MetricsDb::insert(std::int64_t step, std::span<const Record> records) {
  for (const Record& r : records) {
    const std::optional<std::string> reason = reason_of(r);
    bind_all(insert_point_.get(), step, series_of(r), attempt_, r.value, r.n, r.se, reason);
    try {
      run(insert_point_);
    } catch (const Error& e) {
      throw machine_error("step {}, {} {} {} {}: {}", step, r.probe, r.tap, r.key, r.labels, e.what());
    }
  }
}

void MetricsDb::write_step(const StepRow& r, std::span<const Record> records) {
  in_transaction([&] {
    bind_all(insert_step_.get(), r.step, attempt_, r.tokens, r.targets, r.loss, r.lr, r.clip, r.seconds);
    run(insert_step_);
    insert(r.step, records);
  });
}

void MetricsDb::write(std::int64_t step, std::span<const Record> records) {
  in_transaction([&] { insert(step, records); });
}

void MetricsDb::event(std::int64_t step, const std::string& kind, const std::string& text) {
  bind_all(insert_event_.get(), step, attempt_, kind, text);
  run(insert_event_);
}

void MetricsDb::finish() {
  execute("CREATE INDEX IF NOT EXISTS points_by_series ON points (series, step)");
  execute("PRAGMA optimize");
  // Not possible while someone reads; then the log stays beside the file, which is right as well.
  sqlite3_exec(db_.get(), "PRAGMA journal_mode = DELETE", nullptr, nullptr, nullptr);
}

// ---- Reading

std::optional<std::int64_t> MetricsDb::first_step() const {
  const Statement query = prepare("SELECT step FROM steps ORDER BY step LIMIT 1");
  if (!row(query)) return std::nullopt;
  return sqlite3_column_int64(query.get(), 0);
}

std::optional<std::string> MetricsDb::config_of(std::int64_t step) const {
  const Statement query = prepare(
      "SELECT config FROM runs WHERE attempt = (SELECT attempt FROM steps WHERE step = ? ORDER BY attempt DESC LIMIT "
      "1)");
  bind_all(query.get(), step);
  if (!row(query)) return std::nullopt;
  return text_column(query.get(), 0);
}

bool MetricsDb::has_event(std::int64_t step, const std::string& kind) const {
  const Statement query = prepare("SELECT 1 FROM events WHERE step = ? AND kind = ?");
  bind_all(query.get(), step, kind);
  return row(query);
}

std::optional<std::int64_t> MetricsDb::last_step() const {
  const Statement query = prepare("SELECT step FROM steps ORDER BY step DESC LIMIT 1");
  if (!row(query)) return std::nullopt;
  return sqlite3_column_int64(query.get(), 0);
}

std::vector<std::string> MetricsDb::events(const std::string& kind) const {
  const Statement query = prepare("SELECT text FROM events WHERE kind = ? ORDER BY rowid");
  bind_all(query.get(), kind);
  std::vector<std::string> texts;
  while (row(query)) texts.push_back(text_column(query.get(), 0));
  return texts;
}

std::int64_t MetricsDb::without_update() const {
  const Statement query = prepare(
      "SELECT count(*) FROM steps AS s WHERE lr IS NULL AND attempt = (SELECT max(attempt) FROM steps WHERE step = "
      "s.step)");
  return row(query) ? sqlite3_column_int64(query.get(), 0) : 0;
}

std::int64_t MetricsDb::without_update_up_to(std::int64_t step) const {
  const Statement query = prepare(
      "SELECT count(DISTINCT step) FROM steps WHERE step <= ?1 AND step > ifnull((SELECT step FROM steps AS s WHERE "
      "step <= ?1 AND lr IS NOT NULL AND attempt = (SELECT max(attempt) FROM steps WHERE step = s.step) "
      "ORDER BY step DESC LIMIT 1), -1)");
  bind_all(query.get(), step);
  return row(query) ? sqlite3_column_int64(query.get(), 0) : 0;
}

double MetricsDb::seconds() const {
  const Statement query = prepare(
      "SELECT total(seconds) FROM steps AS s WHERE attempt = (SELECT max(attempt) FROM steps WHERE step = s.step)");
  return row(query) ? sqlite3_column_double(query.get(), 0) : 0;
}

double MetricsDb::sum(const std::string& key) const {
  const Statement query = prepare(
      "SELECT total(value) FROM points AS p JOIN series ON series.id = p.series WHERE series.key = ? AND "
      "attempt = (SELECT max(attempt) FROM points WHERE step = p.step AND series = p.series)");
  bind_all(query.get(), key);
  return row(query) ? sqlite3_column_double(query.get(), 0) : 0;
}

std::optional<StepRow> MetricsDb::step(std::int64_t step) const {
  const Statement query = prepare(
      "SELECT tokens, targets, loss, lr, clip, seconds FROM steps WHERE step = ? ORDER BY attempt DESC LIMIT "
      "1");
  bind_all(query.get(), step);
  if (!row(query)) return std::nullopt;
  sqlite3_stmt* q = query.get();
  // A loss that was not finite is NULL, hence NaN again.
  const auto number = [q](int at) {
    return sqlite3_column_type(q, at) == SQLITE_NULL ? std::nan("") : sqlite3_column_double(q, at);
  };
  return StepRow{step,     sqlite3_column_int64(q, 0), sqlite3_column_int64(q, 1), number(2), number(3), number(4),
                 number(5)};
}

std::optional<double> MetricsDb::value(std::int64_t step, const std::string& probe, const std::string& tap,
                                       const std::string& key, const std::string& labels) const {
  const Statement query = prepare(
      "SELECT value FROM points WHERE step = ? AND series = "
      "(SELECT id FROM series WHERE probe = ? AND tap = ? AND key = ? AND labels = ?) ORDER BY attempt DESC "
      "LIMIT 1");
  bind_all(query.get(), step, probe, tap, key, labels);
  if (!row(query) || sqlite3_column_type(query.get(), 0) == SQLITE_NULL) return std::nullopt;
  return sqlite3_column_double(query.get(), 0);
}

std::vector<std::string> MetricsDb::taps(const std::string& probe, const std::string& key,
                                         const std::string& labels) const {
  const Statement query = prepare("SELECT tap FROM series WHERE probe = ? AND key = ? AND labels = ? ORDER BY id");
  bind_all(query.get(), probe, key, labels);
  std::vector<std::string> taps;
  while (row(query)) taps.push_back(text_column(query.get(), 0));
  return taps;
}

std::vector<std::int64_t> MetricsDb::steps(const std::string& probe, const std::string& tap, const std::string& key,
                                           const std::string& labels) const {
  const Statement query = prepare(
      "SELECT DISTINCT step FROM points WHERE series = "
      "(SELECT id FROM series WHERE probe = ? AND tap = ? AND key = ? AND labels = ?) ORDER BY step");
  bind_all(query.get(), probe, tap, key, labels);
  std::vector<std::int64_t> steps;
  while (row(query)) steps.push_back(sqlite3_column_int64(query.get(), 0));
  return steps;
}

}  // namespace nascent
