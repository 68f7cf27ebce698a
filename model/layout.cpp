#include "model/layout.h"

#include "kernels/require.h"

namespace nascent {
namespace {

// The place in the file of element `i` (row-major) of a tensor of our shape.
std::int64_t place_in_file(const Layout& layout, const Shape& ours, std::int64_t i) {
  const std::int64_t cols = ours.rank() > 1 ? ours[1] : 1, row = i / cols, col = i % cols;
  switch (layout.kind) {
    case Layout::kPlain:
      return i;
    case Layout::kTransposed:
      return col * ours[0] + row;
    case Layout::kHeadwise: {
      const std::int64_t width = ours[0] / 3, size = width / layout.heads;
      const std::int64_t part = row / width, head = row % width / size, k = row % size;
      return ((head * 3 + part) * size + k) * cols + col;
    }
  }
  return i;
}

template <class F>
void for_each_place(const Layout& layout, const View& ours, const View& file, F f) {
  require_shape("Layout", "the file's tensor", file, shape_in_file(layout, ours.shape()));
  for (std::int64_t i = 0; i < ours.size(); ++i) f(i, place_in_file(layout, ours.shape(), i));
}

}  // namespace

Shape shape_in_file(const Layout& layout, const Shape& ours) {
  return layout.kind == Layout::kTransposed ? Shape{ours[1], ours[0]} : ours;
}

void to_file(const Tensor& file, const View& ours, const Layout& layout) {
  dispatch(ours.dtype(), [&]<class T>() {
    for_each_place(layout, ours, file,
                   [&](std::int64_t i, std::int64_t at) { file.data<T>()[at] = ours.data<T>()[i]; });
  });
}

void from_file(const Tensor& ours, const View& file, const Layout& layout) {
  dispatch(ours.dtype(), [&]<class T>() {
    for_each_place(layout, ours, file,
                   [&](std::int64_t i, std::int64_t at) { ours.data<T>()[i] = file.data<T>()[at]; });
  });
}

}  // namespace nascent
