#include "data/probe_choice.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <queue>
#include <tuple>

#include "data/counts.h"
#include "kernels/error.h"
#include "kernels/philox.h"

namespace nascent {
namespace {

// The stream as windows of tokens, each token with its document.
class Text {
 public:
  Text(const TokenStream& stream, std::int64_t T)
      : stream_(stream), count_(Windows(stream, T).count()), tokens_(static_cast<std::size_t>(T)) {}

  std::uint64_t count() const { return count_; }

  // f(type, document) for the inputs of window k, in order.
  template <class F>
  void visit(std::uint64_t k, F&& f) {
    std::uint64_t place = k * tokens_.size();
    stream_.read(place, tokens_);
    const auto begins = stream_.begins();
    auto document = static_cast<std::size_t>(std::ranges::upper_bound(begins, place) - begins.begin()) - 1;
    for (const std::int32_t token : tokens_) {
      while (begins[document + 1] <= place) ++document;
      f(static_cast<std::size_t>(token), document);
      ++place;
    }
  }

 private:
  const TokenStream& stream_;
  std::uint64_t count_;
  std::vector<std::int32_t> tokens_;
};

// Of each type, in some windows.
struct Census {
  // windows ascending, so that a document's tokens come together.
  Census(Text& text, std::size_t vocab, std::span<const std::uint64_t> windows) : occurrences(vocab), documents(vocab) {
    std::vector<std::uint64_t> last_document(vocab);  // counted from 1; 0: none
    for (const std::uint64_t k : windows) {
      text.visit(k, [&](std::size_t type, std::uint64_t document) {
        ++occurrences[type];
        if (std::exchange(last_document[type], document + 1) != document + 1) ++documents[type];
      });
    }
  }
  bool enough(std::size_t type) const {
    return occurrences[type] >= kProbeOccurrences && documents[type] >= kProbeDocuments;
  }

  std::vector<std::int64_t> occurrences, documents;
};

// What each window holds of the wanted types, which go by their place in the list of them.
struct Holdings {
  struct Entry {
    std::uint32_t wanted, document, occurrences;
  };

  Holdings(Text& text, std::size_t vocab, std::span<const std::size_t> wanted) {
    constexpr std::uint32_t kNone = UINT32_MAX;
    std::vector<std::uint32_t> place(vocab, kNone);
    for (std::size_t i = 0; i < wanted.size(); ++i) place[wanted[i]] = static_cast<std::uint32_t>(i);
    for (std::uint64_t k = 0; k < text.count(); ++k) {
      text.visit(k, [&](std::size_t type, std::uint64_t document) {
        if (place[type] != kNone) entries.push_back({place[type], static_cast<std::uint32_t>(document), 1});
      });
      merge_equal(begins.back());
      begins.push_back(entries.size());
    }
  }

  // Ascending by type, then by document.
  std::span<const Entry> of(std::uint64_t window) const {
    return std::span(entries).subspan(begins[window], begins[window + 1] - begins[window]);
  }

  std::vector<Entry> entries;
  std::vector<std::size_t> begins{0};  // of each window's entries, and the end

 private:
  // Sorts the entries from `begin` on and makes one of those of equal type and document.
  void merge_equal(std::size_t begin) {
    const auto newest = std::span(entries).subspan(begin);
    std::ranges::sort(newest, {}, [](const Entry& e) { return std::pair(e.wanted, e.document); });
    std::size_t end = begin;
    for (const Entry e : newest) {
      Entry* last = end == begin ? nullptr : &entries[end - 1];
      if (last && last->wanted == e.wanted && last->document == e.document)
        ++last->occurrences;
      else
        entries[end++] = e;
    }
    entries.resize(end);
  }
};

// What the types of a list lack while windows are taken: 1 for an occurrence, 4 for a document.
class Shortfall {
 public:
  Shortfall(std::size_t types, const std::vector<bool>& listed) : types_(types) {
    for (std::size_t i = 0; i < types; ++i)
      if (listed[i]) types_[i].occurrences = kProbeOccurrences, types_[i].needed = kProbeDocuments;
    sum_ = std::ranges::count(listed, true) * (kProbeOccurrences + kProbeDocuments * kDocumentWorth);
  }

  std::int64_t sum() const { return sum_; }

  std::int64_t usefulness(std::span<const Holdings::Entry> window) const {
    std::int64_t sum = 0;
    for (std::size_t i = 0; i < window.size();) {
      const Type& type = types_[window[i].wanted];
      std::int64_t occurrences = 0, documents = 0;
      for (const std::uint32_t wanted = window[i].wanted; i < window.size() && window[i].wanted == wanted; ++i) {
        occurrences += window[i].occurrences;
        documents += type.misses(window[i].document);
      }
      sum += std::min(occurrences, type.occurrences) + kDocumentWorth * std::min(documents, type.lacks_documents());
    }
    return sum;
  }

  void take(std::span<const Holdings::Entry> window) {
    sum_ -= usefulness(window);
    for (const auto& e : window) {
      Type& type = types_[e.wanted];
      type.occurrences -= std::min<std::int64_t>(type.occurrences, e.occurrences);
      if (type.misses(e.document)) type.documents.push_back(e.document);
    }
  }

 private:
  static constexpr std::int64_t kDocumentWorth = kProbeOccurrences / kProbeDocuments;
  struct Type {
    std::int64_t occurrences = 0;          // that it lacks
    std::int64_t needed = 0;               // documents
    std::vector<std::uint32_t> documents;  // met so far
    std::int64_t lacks_documents() const { return needed - std::ssize(documents); }
    bool misses(std::uint32_t document) const {
      return lacks_documents() > 0 && std::ranges::find(documents, document) == documents.end();
    }
  };

  std::vector<Type> types_;
  std::int64_t sum_ = 0;
};

// Windows for the listed types; nothing when they take more than `room`.
std::optional<std::vector<std::uint64_t>> cover(const Holdings& holdings, std::size_t types,
                                                const std::vector<bool>& listed, std::span<const std::uint64_t> order,
                                                std::uint64_t room) {
  // A window's usefulness only falls while others are taken, so what was computed earlier bounds it from above and most
  // windows are never looked at again. Of equal ones the first in the drawn order stands on top.
  struct Offer {
    std::int64_t usefulness;
    std::uint64_t place;  // in the drawn order
    bool operator<(const Offer& other) const {
      return usefulness != other.usefulness ? usefulness < other.usefulness : place > other.place;
    }
  };
  Shortfall shortfall(types, listed);
  std::vector<Offer> offers;
  for (std::uint64_t place = 0; place < order.size(); ++place)
    offers.push_back({shortfall.usefulness(holdings.of(order[place])), place});
  std::priority_queue<Offer> queue(std::less<Offer>(), std::move(offers));

  std::vector<std::uint64_t> windows;
  while (shortfall.sum() > 0) {
    // Not even if every window to come were as useful as the best.
    if (shortfall.sum() > static_cast<std::int64_t>(room - windows.size()) * queue.top().usefulness)
      return std::nullopt;
    Offer best = queue.top();
    queue.pop();
    const auto window = holdings.of(order[best.place]);
    const std::int64_t now = shortfall.usefulness(window);
    if (now == best.usefulness) {
      shortfall.take(window);
      windows.push_back(order[best.place]);
    } else {
      best.usefulness = now;
      queue.push(best);
    }
  }
  return windows;
}

// Types of each band, by rank. Special ids have no rank and are in none.
std::vector<std::vector<std::size_t>> types_by_band(const FrequencyBins& bins) {
  std::vector<std::size_t> by_rank(bins.rank.size());
  std::int64_t ranks = 0;
  for (std::size_t type = 0; type < bins.rank.size(); ++type) {
    if (bins.rank[type] == 0) continue;
    by_rank[static_cast<std::size_t>(bins.rank[type] - 1)] = type;
    ++ranks;
  }
  by_rank.resize(static_cast<std::size_t>(ranks));
  std::vector<std::vector<std::size_t>> bands;
  for (const std::size_t type : by_rank) {
    bands.resize(static_cast<std::size_t>(bins.bin[type]) + 1);
    bands.back().push_back(type);
  }
  return bands;
}

ProbeBand describe(const std::vector<std::size_t>& types, const FrequencyBins& bins, const Census& census) {
  ProbeBand band;
  band.first_rank = bins.rank[types.front()];
  band.last_rank = bins.rank[types.back()];
  band.wanted = std::min<std::int64_t>(kProbeTypes, std::ssize(types));
  for (const std::size_t type : types) {
    band.possible += census.enough(type);
    band.most_occurrences = std::max(band.most_occurrences, census.occurrences[type]);
    band.most_documents = std::max(band.most_documents, census.documents[type]);
  }
  return band;
}

// The wanted types of a band, the most frequent first.
std::vector<std::size_t> wanted_types(std::vector<std::size_t> types, const Census& census) {
  std::erase_if(types, [&](std::size_t type) { return !census.enough(type); });
  std::ranges::sort(types, [&](std::size_t a, std::size_t b) {
    return std::tuple(census.occurrences[b], a) < std::tuple(census.occurrences[a], b);
  });
  types.resize(std::min<std::size_t>(types.size(), kProbeTypes));
  return types;
}

// Grows the list band by band; returns the windows of the last one.
std::vector<std::uint64_t> cover_bands(Text& text, std::size_t vocab, const Census& census,
                                       const std::vector<std::vector<std::size_t>>& bands,
                                       std::span<const std::uint64_t> order, std::uint64_t room) {
  std::vector<std::size_t> wanted;
  std::vector<std::size_t> begins{0};  // of each band's types in it, and the end
  for (const auto& types : bands) {
    const auto more = wanted_types(types, census);
    wanted.insert(wanted.end(), more.begin(), more.end());
    begins.push_back(wanted.size());
  }
  const Holdings holdings(text, vocab, wanted);

  std::vector<std::uint64_t> windows;
  std::vector<bool> listed(wanted.size());
  for (std::size_t band = 0; band < bands.size(); ++band) {
    const auto begin = listed.begin() + static_cast<std::ptrdiff_t>(begins[band]);
    const auto end = listed.begin() + static_cast<std::ptrdiff_t>(begins[band + 1]);
    std::ptrdiff_t fits = 0, too_many = end - begin + 1;
    for (std::ptrdiff_t n = end - begin; n > fits; n = (fits + too_many) / 2) {
      std::fill(begin, end, false);
      std::fill(begin, begin + n, true);
      auto covered = cover(holdings, wanted.size(), listed, order, room);
      if (covered) {
        fits = n;
        windows = std::move(*covered);
      } else {
        too_many = n;
      }
    }
    std::fill(begin, end, false);
    std::fill(begin, begin + fits, true);
  }
  return windows;
}

// All windows, in an order drawn from the seed.
std::vector<std::uint64_t> drawn_order(std::uint64_t windows, std::uint64_t seed) {
  const Random random(seed, "probe-set");
  std::vector<std::pair<std::uint64_t, std::uint64_t>> drawn(windows);
  for (std::uint64_t k = 0; k < windows; ++k) drawn[k] = {random.bits(k), k};
  std::ranges::sort(drawn);
  std::vector<std::uint64_t> order(windows);
  std::ranges::transform(drawn, order.begin(), [](const auto& draw) { return draw.second; });
  return order;
}

}  // namespace

ProbeSetChoice choose_probe_set(const TokenStream& heldout, std::span<const std::int64_t> training_counts,
                                const ProbeSetSettings& settings) {
  if (settings.sequences < 1)
    throw input_error("probe set: {} sequences asked for, expected at least 1", settings.sequences);
  const std::size_t vocab = training_counts.size();
  const FrequencyBins bins = frequency_bins(training_counts, settings.edges, 0, settings.special);
  token_counts(heldout, std::ssize(training_counts));  // refuses what no index below may meet
  if (heldout.begins().size() > UINT32_MAX)
    throw input_error("probe set: {} held-out documents, expected fewer than 2^32", heldout.begins().size() - 1);
  Text text(heldout, settings.T);
  const std::uint64_t room = std::min(text.count(), static_cast<std::uint64_t>(settings.sequences));

  std::vector<std::uint64_t> all(text.count());
  std::iota(all.begin(), all.end(), std::uint64_t{0});
  const Census census(text, vocab, all);
  const auto bands = types_by_band(bins);
  const std::vector<std::uint64_t> order = drawn_order(text.count(), settings.seed);
  std::vector<bool> chosen(text.count());
  std::uint64_t left = room;
  for (const std::uint64_t window : cover_bands(text, vocab, census, bands, order, room)) chosen[window] = true, --left;
  for (const std::uint64_t window : order)
    if (left > 0 && !chosen[window]) chosen[window] = true, --left;

  ProbeSetChoice choice;
  choice.available = text.count();
  std::ranges::copy_if(order, std::back_inserter(choice.windows), [&](auto window) { return chosen[window]; });
  std::erase_if(all, [&](auto window) { return !chosen[window]; });
  const Census reached(text, vocab, all);
  for (const auto& types : bands) {
    choice.bands.push_back(describe(types, bins, census));
    for (const std::size_t type : types) choice.bands.back().reached += reached.enough(type);
  }
  return choice;
}

}  // namespace nascent
