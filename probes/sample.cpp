#include "probes/sample.h"

#include <algorithm>
#include <cmath>

#include "kernels/second_moments.h"

namespace nascent {
namespace {

Tensor tensor_of(DenseMatrix& m) { return {m.data.data(), DType::kF64, {m.rows, m.cols}}; }

// Products in float leave about 1e-7 of the largest eigenvalue where an exact one is zero.
double rounding_of(DType products) { return products == DType::kF32 ? 1e-6 : 1e-9; }

bool is_zero_row(View x, std::int64_t row) {
  return dispatch(x.dtype(), [&]<class T>() {
    const T* at = x.data<T>() + row * x.cols();
    return std::all_of(at, at + x.cols(), [](T value) { return value == 0; });
  });
}

double largest_of(const Sample& sample) {
  const auto& factor = sample.selection.factor;
  const double most = factor.empty() ? 1 : *std::ranges::max_element(factor);
  return sample.array.largest * most;
}

double squared_distance(const double* a, const double* b, std::int64_t n) {
  double sum = 0;
  for (std::int64_t i = 0; i < n; ++i) sum += (a[i] - b[i]) * (a[i] - b[i]);
  return sum;
}
const double* row_of(const DenseMatrix& m, std::int64_t i) { return m.data.data() + i * m.cols; }

// The moments of the sequences that `belongs` takes.
template <class F>
Moments moments_of(Stream& s, const Sample& sample, DType products, F&& belongs) {
  const Array& array = sample.array;
  const std::int64_t d = array.x.cols();
  const bool weighted = !sample.selection.weight.empty();
  Moments m(d);
  double weights = 0;
  // A square that overflows is as good as infinite.
  const double largest = largest_of(sample);
  m.finite = std::isfinite(largest * largest * static_cast<double>(array.x.size()));
  m.largest = m.finite ? array.largest : 0;
  m.rounding = rounding_of(products);
  std::vector<std::int32_t> rows;
  for (std::int64_t i = 0; i < sample.sequences(); ++i) {
    if (!belongs(sample.number[static_cast<std::size_t>(i)])) continue;
    m.n += static_cast<std::int64_t>(sample.by_sequence.of(i).size());
    m.sum_norm += sample.scalar(i, kSumNorm);
    m.sum_squares += sample.scalar(i, kSumSquares);
    m.zero_rows += static_cast<std::int64_t>(sample.scalar(i, kZeroRows));
    m.unit_rows += static_cast<std::int64_t>(sample.scalar(i, kUnitRows));
    for (std::int64_t j = 0; j < d; ++j) {
      m.sum[static_cast<std::size_t>(j)] += sample.sums(i, j);
      m.unit_sum[static_cast<std::size_t>(j)] += sample.unit_sums(i, j);
    }
  }
  for (std::int32_t row : sample.centred) {
    if (!belongs(array.positions->sequence()[static_cast<std::size_t>(row)])) continue;
    rows.push_back(row);
    weights += weighted ? sample.selection.weight[static_cast<std::size_t>(row)] : 1;
  }
  // Weights make every type of the selection one row.
  m.n_centred = static_cast<std::int64_t>(std::llround(weights));
  if (weighted) {
    m.n = m.n_centred;
    m.weighted_rows = static_cast<std::int64_t>(rows.size());
  }
  if (rows.empty() || !m.finite) return m;
  for (std::int64_t j = 0; j < d; ++j)
    m.mean[static_cast<std::size_t>(j)] = m.sum[static_cast<std::size_t>(j)] / weights;
  second_moments(s, tensor_of(m.scatter), array.x, view_of(rows), view_of(m.mean), largest_of(sample),
                 view_of(sample.selection.factor), view_of(sample.selection.weight), products);
  return m;
}

}  // namespace

Sample sample_of(Stream& s, const Array& array, Selection selection) {
  Sample sample;
  sample.array = array;
  sample.selection = std::move(selection);
  const std::int64_t d = array.x.cols();
  sample.by_sequence = group_by(array.positions->sequence(), sample.selection.rows, &sample.number);
  const std::int64_t sequences = sample.sequences();
  sample.sums = DenseMatrix(sequences, d);
  sample.unit_sums = DenseMatrix(sequences, d);
  sample.scalars = DenseMatrix(sequences, kRowScalars);
  row_statistics(s, tensor_of(sample.sums), tensor_of(sample.unit_sums), tensor_of(sample.scalars), array.x,
                 view_of(sample.by_sequence.rows), view_of(sample.by_sequence.offsets),
                 view_of(sample.selection.factor), view_of(sample.selection.weight));
  sample.centred = sample.by_sequence.rows;
  if (array.gradient) {
    for (std::int64_t i = 0; i < sequences; ++i) {
      if (sample.scalar(i, kZeroRows) == 0) continue;
      std::erase_if(sample.centred, [&](std::int32_t row) { return is_zero_row(array.x, row); });
      break;
    }
  }
  for (int half = 0; half < 2; ++half)
    sample.halves[half] =
        moments_of(s, sample, array.products, [half](std::int32_t number) { return number % 2 == half; });
  if (sample.selection.weight.empty()) {
    sample.all = sample.halves[0];
    sample.all.add(sample.halves[1]);
  } else {  // the weights of a half do not add up to a number of rows
    sample.all = moments_of(s, sample, array.products, [](std::int32_t) { return true; });
  }
  return sample;
}

std::vector<Moments> Sample::without_groups(Stream& s) const {
  constexpr std::int32_t kGroups = 8;
  std::vector<Moments> groups, rests;
  for (std::int32_t g = 0; g < kGroups && sequences() > 1; ++g) {
    Moments m = moments_of(s, *this, array.x.dtype(), [=](std::int32_t number) { return number % kGroups == g; });
    if (m.n > 0) groups.push_back(std::move(m));
  }
  for (std::size_t out = 0; out < groups.size() && groups.size() > 1; ++out) {
    Moments rest(all.d);
    for (std::size_t g = 0; g < groups.size(); ++g) {
      if (g != out) rest.add(groups[g]);
    }
    rests.push_back(std::move(rest));
  }
  return rests;
}

std::vector<double> sums_by_sequence(const Sample& sample, const double* of_rows, bool squares) {
  const auto& [chosen, factor, weight] = sample.selection;
  std::vector<double> sums(static_cast<std::size_t>(sample.sequences()), 0.0);
  for (std::size_t s = 0; s < sums.size(); ++s) {
    for (const std::int32_t row : sample.by_sequence.of(static_cast<std::int64_t>(s))) {
      const auto i = static_cast<std::size_t>(row);
      const double f = factor.empty() ? 1 : factor[i], w = weight.empty() ? 1 : weight[i];
      sums[s] += of_rows[i] * w * (squares ? f * f : 1);
    }
  }
  return sums;
}

Estimate Sample::mean_norm() const {
  return {all.mean_norm(), jackknife(left_out(), [&](std::int64_t s) -> Value {
            return (all.sum_norm - scalar(s, kSumNorm)) / (static_cast<double>(all.n) - rows_of(s));
          })};
}

Estimate Sample::norm_of_mean() const {
  return {all.norm_of_mean(), jackknife(left_out(), [&](std::int64_t s) -> Value {
            const double square = squared_distance(all.sum.data(), row_of(sums, s), all.d);
            return std::sqrt(square) / (static_cast<double>(all.n) - rows_of(s));
          })};
}

Estimate Sample::average_cosine() const {
  return {all.average_cosine(), jackknife(left_out(), [&](std::int64_t s) -> Value {
            const double units = static_cast<double>(all.unit_rows) - scalar(s, kUnitRows);
            if (units < 2) return {};
            const double square = squared_distance(all.unit_sum.data(), row_of(unit_sums, s), all.d);
            return (square - units) / (units * (units - 1));
          })};
}

std::vector<double> distances_of(Stream& s, const Array& array, const std::vector<double>& factor,
                                 const std::vector<std::int32_t>& rows, const std::vector<double>& mean) {
  DenseMatrix squares(1, static_cast<std::int64_t>(rows.size()));
  const double most = factor.empty() ? 1 : *std::ranges::max_element(factor);
  row_squares(s, tensor_of(squares), array.x, view_of(rows), view_of(mean), {}, {}, array.largest * most,
              view_of(factor));
  return std::move(squares.data);
}

DenseMatrix squares_in(Stream& s, const Array& array, const std::vector<const DenseMatrix*>& bases,
                       const std::vector<double>* mean) {
  std::int64_t width = 0;
  std::vector<std::int32_t> ends;
  for (const DenseMatrix* basis : bases) ends.push_back(static_cast<std::int32_t>(width += basis->cols));
  const std::int64_t d = array.x.cols();
  DenseMatrix side_by_side(d, width), squares(static_cast<std::int64_t>(bases.size()), array.x.rows());
  std::int64_t first = 0;
  for (const DenseMatrix* basis : bases) {
    for (std::int64_t i = 0; i < d; ++i) {
      for (std::int64_t j = 0; j < basis->cols; ++j) side_by_side(i, first + j) = (*basis)(i, j);
    }
    first += basis->cols;
  }
  if (width == 0) return squares;
  const std::vector<std::int32_t> all = array.positions->all();
  row_squares(s, tensor_of(squares), array.x, view_of(all), mean ? view_of(*mean) : View(), tensor_of(side_by_side),
              view_of(ends), array.largest, {});
  return squares;
}

}  // namespace nascent
