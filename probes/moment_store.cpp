#include "probes/moment_store.h"

#include <algorithm>
#include <charconv>
#include <deque>
#include <fmt/format.h>

#include "data/safetensors.h"
#include "kernels/error.h"
#include "probes/probe.h"

namespace nascent {
namespace {

// Owns what is written.
class Arrays {
 public:
  void add(const std::string& name, Shape shape, const double* values) {
    auto& kept = doubles_.emplace_back(values, values + shape.size());
    views_.push_back({name, View(kept.data(), DType::kF64, shape)});
  }
  void add_f32(const std::string& name, const DenseMatrix& m, double unit) {
    auto& kept = floats_.emplace_back();
    for (double value : m.data) kept.push_back(static_cast<float>(value / unit));
    views_.push_back({name, View(kept.data(), DType::kF32, {m.rows, m.cols})});
  }
  const std::vector<NamedView>& views() const { return views_; }

 private:
  std::deque<std::vector<double>> doubles_;
  std::deque<std::vector<float>> floats_;
  std::vector<NamedView> views_;
};

// Shares of a G^T G along each column.
std::vector<double> energies_along(const DenseMatrix& raw, const DenseMatrix& directions) {
  const DenseMatrix image = multiply(raw, directions);
  const double total = trace(raw);
  std::vector<double> energies(static_cast<std::size_t>(directions.cols));
  for (std::int64_t i = 0; i < directions.rows; ++i) {
    for (std::int64_t j = 0; j < directions.cols; ++j)
      energies[static_cast<std::size_t>(j)] += directions(i, j) * image(i, j) / total;
  }
  return energies;
}

void add(Arrays& arrays, const TapStatistics& tap) {
  const std::string& name = tap.tap().name;
  const std::int64_t d = tap.tap().width;
  if (tap.has_activation() && spectrum_of(tap.activation().all)) {
    const Moments& h = tap.activation().all;
    const double total = trace(h.scatter), variance = total / static_cast<double>(h.n_centred - 1);
    arrays.add_f32("h:" + name + ":covariance", h.scatter, total);
    arrays.add("h:" + name + ":trace", {1}, &variance);
    arrays.add("h:" + name + ":mean", {d}, h.mean.data());
    const Basis* current = tap.bases().find("current");
    if (current && current->directions.cols > 0) arrays.add_f32("basis:current:" + name, current->directions, 1);
  }
  if (!tap.has_gradient() || !tap.gradient().all.finite || !(trace(tap.gradient_raw()) > 0)) return;
  const Moments& g = tap.gradient().all;
  const double total = trace(tap.gradient_raw()), n = static_cast<double>(g.n);
  std::vector<double> mean = g.sum;
  for (double& value : mean) value /= n;
  arrays.add_f32("g:" + name + ":second_moment", tap.gradient_raw(), total);
  arrays.add("g:" + name + ":trace", {1}, &total);
  arrays.add("g:" + name + ":mean", {d}, mean.data());
  arrays.add("g:" + name + ":n", {1}, &n);
  const DenseMatrix& principal = tap.bases().principal();
  if (principal.cols == 0) return;
  const std::vector<double> energies = energies_along(tap.gradient_raw(), principal);
  arrays.add("energy:" + name, {principal.cols}, energies.data());
}

DenseMatrix matrix_of(SafetensorsFile& file, const std::string& name) {
  const View view = file.at(name);
  DenseMatrix m(view.rows(), view.cols());
  dispatch(view.dtype(), [&]<class T>() { std::copy_n(view.data<T>(), view.size(), m.data.begin()); });
  return m;
}

}  // namespace

std::string MomentStore::path(std::int64_t step) const {
  return (folder_ / fmt::format("{}_{:08}.safetensors", prefix_, step)).string();
}

void MomentStore::write(const Panel& panel) const {
  Arrays arrays;
  for (const auto& tap : panel.taps) add(arrays, *tap);
  if (arrays.views().empty()) return;
  std::error_code error;
  std::filesystem::create_directories(folder_, error);
  if (error) throw machine_error("{}: cannot be made: {}", folder_.string(), error.message());
  write_safetensors(path(panel.step), arrays.views(), {{"step", std::to_string(panel.step)}});
}

std::vector<std::int64_t> MomentStore::steps(std::int64_t before) const {
  std::vector<std::int64_t> steps;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder_, error)) {
    const std::string name = entry.path().filename().string(), start = prefix_ + "_", end = ".safetensors";
    if (!name.starts_with(start) || !name.ends_with(end)) continue;
    std::int64_t step = 0;
    const char* last = name.data() + name.size() - end.size();
    const auto [stop, bad] = std::from_chars(name.data() + start.size(), last, step);
    if (bad == std::errc() && stop == last && step < before) steps.push_back(step);
  }
  std::ranges::sort(steps);
  return steps;
}

Records MomentStore::measure(std::int64_t step, const std::string& tap, const Basis& basis) const {
  SafetensorsFile file(path(step));
  Records records;
  const DenseMatrix& q = basis.directions;
  const Labels labels = {{"basis", basis.name}};
  const auto add = [&](const char* probe, const char* key, const Labels& own, Value value, std::int64_t n) {
    Recorder(records, probe).add(tap, key, own, value, n);
    if (value) records.back().reason = "retrospective";
  };
  const double rank = static_cast<double>(q.cols), chance = rank / static_cast<double>(q.rows);
  const std::int64_t n =
      file.has("g:" + tap + ":n") ? static_cast<std::int64_t>(matrix_of(file, "g:" + tap + ":n").data[0]) : 0;
  if (file.has("h:" + tap + ":covariance")) {
    add("tangent", "rank", labels, rank, n);
    add("tangent", "chance", labels, chance, n);
    add("tangent", "explained", labels, explained_share(matrix_of(file, "h:" + tap + ":covariance"), q), n);
  }
  if (file.has("basis:current:" + tap)) {
    // In f32 on file: orthonormal again before angles.
    const std::vector<double> angles = principal_angles(orthonormalize(matrix_of(file, "basis:current:" + tap)), q);
    double sum = 0;
    for (double angle : angles) sum += angle;
    const auto count = static_cast<std::int64_t>(angles.size());
    const Labels pair = {{"basis", "current"}, {"other", basis.name}};
    if (count > 0) {
      add("tangent", "angle_mean", pair, sum / static_cast<double>(count), count);
      add("tangent", "angle_max", pair, *std::ranges::max_element(angles), count);
    }
  }
  if (!file.has("g:" + tap + ":second_moment")) return records;
  const DenseMatrix raw = matrix_of(file, "g:" + tap + ":second_moment"), mean = matrix_of(file, "g:" + tap + ":mean");
  const double total = matrix_of(file, "g:" + tap + ":trace").data[0];
  const std::vector<double> best = ceilings(symmetric_eigenvalues(raw), trace(raw));
  const Energy e = energy_in(raw, q, best[static_cast<std::size_t>(q.cols) - 1]);
  const std::vector<double> along = multiply_transposed(q, DenseMatrix(mean.cols, 1, mean.data)).data;
  const std::pair<const char*, Value> keys[] = {
      {"share", e.share},
      {"chance", chance},
      {"enrichment", e.enrichment},
      {"control_mean", e.control_mean},
      {"ratio", e.ratio},
      {"log_odds", e.log_odds},
      {"z", e.z},
      {"ceiling", e.ceiling},
      {"of_ceiling", e.of_ceiling},
      // From means instead of sums over n positions: squares of means are 1/n of the mean square, at most.
      {"mean_share", mean_share(mean.data, along, total / static_cast<double>(n), 1)},
  };
  for (const auto& [key, value] : keys) add("gradient_energy", key, labels, value, n);
  return records;
}

}  // namespace nascent
