// metrics.db: everything a run measured, one SQLite file that pandas and every language read.
//
//   runs   (attempt, name, started, version, config)       one row each time the run was started or resumed
//   series (id, probe, tap, key, labels)                   labels "basis=init,of=gradient", may be empty
//   points (step, series, attempt, value, n, se, reason)   value is NULL where undefined: reason says why
//   steps  (step, attempt, tokens, targets, loss, lr, clip, seconds)
//   events (step, attempt, time, kind, text)               times are UTC
//
// A resumed run repeats steps under a new attempt; readers take the last. points is clustered by step,
// series, attempt, the order of writing: ten times faster than by series first. finish() adds the index by
// series. A step is one transaction in a write-ahead log: whatever kills the writer, readers find whole
// steps. After a power cut the last ones may be missing (synchronous=NORMAL), but none is broken.
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "kernels/error.h"
#include "probes/record.h"

struct sqlite3;
struct sqlite3_stmt;

namespace nascent {

struct StepRow {
  std::int64_t step = 0;     // updates applied before it
  std::int64_t tokens = 0;   // seen in this step, over all ranks
  std::int64_t targets = 0;  // predicted ones
  double loss = 0;           // nats per target
  double lr = 0;             // NaN: the step had no update
  double clip = 1;           // factor on the gradient, 1 when not clipped; NaN without an update
  double seconds = 0;        // of wall time
};

class MetricsDb {
 public:
  // All throw (input) when the file cannot be opened or is not a metrics.db.
  static MetricsDb create(const std::filesystem::path& path);            // throws (input) when there is one
  static MetricsDb append(const std::filesystem::path& path);            // for a further attempt
  static MetricsDb open_for_reading(const std::filesystem::path& path);  // also beside a writer

  MetricsDb(MetricsDb&&) = default;
  ~MetricsDb();

  // ---- Writing
  // Every call is one transaction. Throws (machine) when the disk is full or a row is there already.

  // Starts an attempt: what follows is written under its number, which is returned (1, 2, ...).
  std::int64_t begin_run(const std::string& name, const std::string& version, const std::string& config);
  std::int64_t attempt() const { return attempt_; }
  void write_step(const StepRow& row, std::span<const Record> records = {});
  void write(std::int64_t step, std::span<const Record> records);
  // `kind` is one word to search for: "resumed", "saved", "not_finite".
  void event(std::int64_t step, const std::string& kind, const std::string& text);

  // The run is over: indexes points by series and folds the log into the one file, readable anywhere.
  void finish();

  // ---- Reading
  // What several attempts have is read from the last of them.

  std::optional<std::int64_t> first_step() const;  // of those written
  std::optional<std::int64_t> last_step() const;
  // The config of the attempt that wrote the step.
  std::optional<std::string> config_of(std::int64_t step) const;
  bool has_event(std::int64_t step, const std::string& kind) const;
  std::optional<StepRow> step(std::int64_t step) const;
  std::vector<std::string> events(const std::string& kind) const;  // their texts, in order
  std::int64_t without_update() const;                             // of all steps, those that had none
  std::int64_t without_update_up_to(std::int64_t step) const;      // the last ones in a row: 0 where `step` had one
  double seconds() const;                                          // of all steps
  double sum(const std::string& key) const;  // of every value with this key, over steps, probes and taps
  // Nothing: no such record, or its value is undefined.
  std::optional<double> value(std::int64_t step, const std::string& probe, const std::string& tap,
                              const std::string& key, const std::string& labels = "") const;
  // Taps that have the key, in order of their first record; steps where one tap has it, ascending.
  std::vector<std::string> taps(const std::string& probe, const std::string& key, const std::string& labels = "") const;
  std::vector<std::int64_t> steps(const std::string& probe, const std::string& tap, const std::string& key,
                                  const std::string& labels = "") const;

 private:
  struct Close {
    void operator()(sqlite3* db) const;
    void operator()(sqlite3_stmt* statement) const;
  };
  using Statement = std::unique_ptr<sqlite3_stmt, Close>;

  MetricsDb(const std::filesystem::path& path, int flags);
  void prepare_to_write();

  Error failure() const;
  void execute(const char* sql) const;
  Statement prepare(const char* sql) const;
  bool row(const Statement& statement) const;  // goes to the next row; whether there is one
  void run(const Statement& statement) const;  // to the end, ready to be bound again
  template <class F>
  void in_transaction(F&& write);

  std::int64_t series_of(const Record& record);
  void insert(std::int64_t step, std::span<const Record> records);

  std::string path_;
  std::int64_t attempt_ = 0;
  std::unique_ptr<sqlite3, Close> db_;
  Statement insert_series_, insert_point_, insert_step_, insert_event_;  // after db_: closed before it
  std::unordered_map<std::string, std::int64_t> series_;                 // probe, tap, key, labels -> id
  std::string series_name_;                                              // scratch
};

}  // namespace nascent
