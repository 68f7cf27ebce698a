// Kernels with and without one mistake each. All take 64 numbers (i32) where nothing else is said.
#pragma once

#include "kernels/stream.h"
#include "kernels/view.h"

namespace nascent::cuda {

void planted_next_of_block(Stream& s, Tensor out, View in, bool barrier);
void planted_sum(Stream& s, Tensor out, View in, bool atomic);  // out [1], in [64 k]
void planted_past_the_end(Stream& s, Tensor out, int past);     // each thread writes `past` numbers further
void planted_past_the_end_of_shared(Stream& s, Tensor out, int past);
void planted_half_a_barrier(Stream& s, Tensor out);  // only half of the block reaches it
void planted_half_a_shuffle(Stream& s, Tensor out);  // only half of the lanes take part

}  // namespace nascent::cuda
