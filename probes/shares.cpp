#include "probes/shares.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>

namespace nascent {
namespace {

double squared(const std::vector<double>& v) { return std::inner_product(v.begin(), v.end(), v.begin(), 0.0); }

Value quotient(double a, double b) { return b > 0 ? Value(a / b) : Value(); }

// The sum of ||x - mu||^2 of a sample without a sequence, or nothing where that counts as zero or is of one row.
Value spread_without(const Sample& sample, std::int64_t s, double spread) {
  const double rows = static_cast<double>(sample.all.n_centred) - sample.centred_of(s);
  const double squares = sample.all.sum_squares - sample.scalar(s, kSumSquares);
  return rows >= 2 && spread > kCancelled * squares ? Value(spread) : Value();
}

}  // namespace

Shares::Shares(Stream& s, const Sample& sample) : sample_(sample) {
  distances_ = distances_of(s, sample.array, sample.selection.factor, sample.centred, sample.all.mean);
  by_sequence_.assign(static_cast<std::size_t>(sample.sequences()), 0.0);
  // `centred` holds the sequences one after the other.
  std::size_t at = 0;
  for (std::size_t i = 0; i < by_sequence_.size(); ++i) {
    const auto rows = static_cast<std::size_t>(sample.centred_of(static_cast<std::int64_t>(i)));
    for (std::size_t k = 0; k < rows; ++k) by_sequence_[i] += distances_[at++];
    total_ += by_sequence_[i];
  }
}

Value Shares::top_positions() const {
  std::vector<double> sorted = distances_;
  const std::size_t top = (sorted.size() + 999) / 1000;
  std::partial_sort(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(top), sorted.end(), std::greater<>());
  return quotient(std::accumulate(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(top), 0.0), total_);
}

Value Shares::top_coordinate() const {
  const DenseMatrix& scatter = sample_.all.scatter;
  double most = 0;
  for (std::int64_t j = 0; j < scatter.rows; ++j) most = std::max(most, scatter(j, j));
  return quotient(most, trace(scatter));
}

std::vector<double> Shares::sums_about_mean(std::int64_t sequence) const {
  std::vector<double> y(sample_.all.mean.size());
  for (std::size_t j = 0; j < y.size(); ++j)
    y[j] = sample_.sums(sequence, static_cast<std::int64_t>(j)) - sample_.centred_of(sequence) * sample_.all.mean[j];
  return y;
}

// Without sequence s the mean moves by delta = -Y_s/(n - n_s), Y_s the sum of x - mu over it.
Estimate Shares::first_positions() const {
  const std::vector<double>& mu = sample_.all.mean;
  const std::size_t d = mu.size();
  const auto& place = sample_.array.positions->place();
  const auto& factor = sample_.selection.factor;
  std::vector<std::vector<double>> first(static_cast<std::size_t>(sample_.sequences()));  // x - mu of each, or none
  std::vector<double> all_first(d, 0.0);
  double inside = 0, count = 0;
  std::size_t at = 0;
  for (std::size_t i = 0; i < first.size(); ++i) {
    const auto rows = static_cast<std::size_t>(sample_.centred_of(static_cast<std::int64_t>(i)));
    for (std::size_t k = 0; k < rows; ++k, ++at) {
      const auto row = static_cast<std::size_t>(sample_.centred[at]);
      if (place[row] != 0) continue;
      dispatch(sample_.array.x.dtype(), [&]<class T>() {
        const T* x = sample_.array.x.data<T>() + row * d;
        for (std::size_t j = 0; j < d; ++j)
          first[i].push_back(static_cast<double>(x[j]) * (factor.empty() ? 1 : factor[row]) - mu[j]);
      });
      for (std::size_t j = 0; j < d; ++j) all_first[j] += first[i][j];
      inside += distances_[at];
      count += 1;
    }
  }
  const double n = static_cast<double>(sample_.all.n_centred);
  const Value se = jackknife(sample_.sequences(), [&](std::int64_t s) -> Value {
    const auto i = static_cast<std::size_t>(s);
    const double left = n - sample_.centred_of(s);
    const double rest = count - (first[i].empty() ? 0 : 1);
    if (rest == 0) return {};
    const std::vector<double> y = sums_about_mean(s);
    double along = 0, shift = 0;
    for (std::size_t j = 0; j < d; ++j) {
      const double delta = -y[j] / left;
      along += delta * (all_first[j] - (first[i].empty() ? 0 : first[i][j]));
      shift += delta * delta;
    }
    const Value spread = spread_without(sample_, s, total_ - by_sequence_[i] - left * shift);
    return spread ? quotient(inside - squared(first[i]) - 2 * along + rest * shift, *spread) : Value();
  });
  if (count == 0) return {};  // none of them is among these rows
  return {quotient(inside, total_), se};
}

namespace {

// Sums over pairs of a type and a sequence, and what they are without one of the sequences.
struct PairSums {
  DenseMatrix pairs;                               // [P, kPairScalars]
  std::vector<std::size_t> type, sequence;         // of each pair
  std::vector<std::vector<std::size_t>> pairs_of;  // each sequence's
  DenseMatrix types;                               // [W, kPairScalars]: sums over a type's pairs

  // Summed over types: ||Y_w||^2/n_w; ||U_w||^2; the square of the units of a type.
  struct Types {
    double between = 0, unit_square = 0, unit_pairs = 0;

    void add(double sign, double rows, double square, double units, double units_squared) {
      if (rows > 0.5) between += sign * square / rows;
      unit_square += sign * units_squared;
      unit_pairs += sign * units * units;
    }
  };
  // A type's ||Y_w||^2 is the sum of Y_w . Y_ws; without sequence s it is ||Y_w||^2 - 2 Y_w . Y_ws + ||Y_ws||^2.
  Types without(std::int64_t left_out) const {
    Types sums;
    const auto add = [&](std::size_t w, double sign, const double* pair) {
      const double* t = &types.data[w * kPairScalars];
      if (!pair) return sums.add(sign, t[kRows], t[kWithType], t[kUnits], t[kUnitWithType]);
      sums.add(sign, t[kRows] - pair[kRows], t[kWithType] - 2 * pair[kWithType] + pair[kSquare],
               t[kUnits] - pair[kUnits], t[kUnitWithType] - 2 * pair[kUnitWithType] + pair[kUnitSquare]);
    };
    for (std::size_t w = 0; w < static_cast<std::size_t>(types.rows); ++w) add(w, 1, nullptr);
    if (left_out < 0) return sums;
    for (std::size_t p : pairs_of[static_cast<std::size_t>(left_out)]) {
      add(type[p], -1, nullptr);
      add(type[p], 1, &pairs.data[p * kPairScalars]);
    }
    return sums;
  }
};

// Rows sorted by type, then by sequence.
PairSums pair_sums(Stream& s, const Sample& sample, const std::vector<std::int32_t>& key,
                   const std::map<std::int32_t, std::size_t>& index) {
  const auto& sequence_of = sample.array.positions->sequence();
  const Groups types = group_by(key, sample.centred);
  std::vector<std::int32_t> offsets = {0}, first_pair = {0};
  PairSums sums;
  for (std::int64_t w = 0; w < types.count(); ++w) {
    // `centred` is sorted by sequence and grouping keeps that order.
    const auto rows = types.of(w);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::int32_t number = sequence_of[static_cast<std::size_t>(rows[i])];
      const bool same = i > 0 && number == sequence_of[static_cast<std::size_t>(rows[i - 1])];
      if (!same) {
        offsets.push_back(offsets.back());
        sums.type.push_back(static_cast<std::size_t>(w));
        sums.sequence.push_back(index.at(number));
      }
      ++offsets.back();
    }
    first_pair.push_back(static_cast<std::int32_t>(offsets.size()) - 1);
  }
  sums.pairs = DenseMatrix(static_cast<std::int64_t>(sums.type.size()), kPairScalars);
  pair_statistics(s, Tensor(sums.pairs.data.data(), DType::kF64, {sums.pairs.rows, sums.pairs.cols}), sample.array.x,
                  view_of(types.rows), view_of(offsets), view_of(first_pair), view_of(sample.all.mean));
  sums.types = DenseMatrix(types.count(), kPairScalars);
  sums.pairs_of.resize(index.size());
  for (std::size_t p = 0; p < sums.type.size(); ++p) {
    sums.pairs_of[sums.sequence[p]].push_back(p);
    for (std::size_t k = 0; k < kPairScalars; ++k)
      sums.types.data[sums.type[p] * kPairScalars + k] += sums.pairs.data[p * kPairScalars + k];
  }
  return sums;
}

}  // namespace

// Pairs of other type and other sequence are all pairs, less those of a type, less those of a sequence, and those of
// both counted twice are put back; of U the sums of unit vectors, and of n their numbers:
//   (||U||^2 - sum ||U_w||^2 - sum ||U_s||^2 + sum ||U_ws||^2)/(n^2 - sum n_w^2 - sum n_s^2 + sum n_ws^2)
Shares::ByType Shares::by_type(Stream& s, const std::vector<std::int32_t>& key) const {
  std::map<std::int32_t, std::size_t> index;  // of a sequence's number among those of the sample
  for (std::size_t i = 0; i < sample_.number.size(); ++i) index[sample_.number[i]] = i;
  const PairSums sums = pair_sums(s, sample_, key, index);
  const auto sequences = static_cast<std::size_t>(sample_.sequences());
  std::vector<double> unit_square(sequences), pair_square(sequences), pair_units(sequences), units(sequences);
  for (std::size_t p = 0; p < sums.type.size(); ++p) {
    const double* v = &sums.pairs.data[p * kPairScalars];
    pair_square[sums.sequence[p]] += v[kUnitSquare];
    pair_units[sums.sequence[p]] += v[kUnits] * v[kUnits];
  }
  const std::int64_t d = sample_.all.d;
  for (std::size_t i = 0; i < sequences; ++i) {
    units[i] = sample_.scalar(static_cast<std::int64_t>(i), kUnitRows);
    for (std::int64_t j = 0; j < d; ++j) {
      const double u = sample_.unit_sums(static_cast<std::int64_t>(i), j);
      unit_square[i] += u * u;
    }
  }

  // Without one sequence, or with all (-1).
  const auto other_cosine = [&](std::int64_t left_out) -> Value {
    const PairSums::Types types = sums.without(left_out);
    double square = 0, n = 0, same = types.unit_square, same_pairs = types.unit_pairs;
    for (std::int64_t j = 0; j < d; ++j) {
      const double u =
          sample_.all.unit_sum[static_cast<std::size_t>(j)] - (left_out < 0 ? 0 : sample_.unit_sums(left_out, j));
      square += u * u;
    }
    for (std::size_t i = 0; i < sequences; ++i) {
      if (static_cast<std::int64_t>(i) == left_out) continue;
      n += units[i];
      same += unit_square[i] - pair_square[i];
      same_pairs += units[i] * units[i] - pair_units[i];
    }
    return quotient(square - same, n * n - same_pairs);
  };
  const auto between = [&](std::int64_t left_out) -> Value {
    const PairSums::Types types = sums.without(left_out);
    if (left_out < 0) return quotient(types.between, total_);
    const double left = static_cast<double>(sample_.all.n_centred) - sample_.centred_of(left_out);
    const double shift = squared(sums_about_mean(left_out)) / left;
    const double rest = total_ - by_sequence_[static_cast<std::size_t>(left_out)] - shift;
    const Value spread = spread_without(sample_, left_out, rest);
    return spread ? quotient(types.between - shift, *spread) : Value();
  };
  const auto estimate = [&](const auto& of) { return Estimate{of(-1), jackknife(sample_.sequences(), of)}; };
  ByType result;
  result.between = estimate(between);
  if (sample_.array.positions->knows_sequences()) result.other_cosine = estimate(other_cosine);
  return result;
}

}  // namespace nascent
