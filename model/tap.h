// Taps: named places in a network, TransformerLens names without "hook_". While planning the model asks whether anyone
// wants a tap, so that what nobody wants is never materialized; in a step the listener gets views of the training
// buffers themselves: the activation when it is computed, its gradient when it is complete. No copy, no wait.
#pragma once

#include <cstdint>
#include <string>

#include "kernels/stream.h"
#include "kernels/view.h"

namespace nascent {

struct Tap {
  std::string name;  // "embed", "blocks.3.resid_post", "ln_final.normalized"
  int index = -1;    // its place in Model::taps()
  std::int64_t width = 0;
  bool wanted = false;
};

class Listener {
 public:
  virtual ~Listener() = default;
  virtual bool wants(const std::string& tap) const = 0;
  // value, grad [B, T, width]: valid during the call.
  virtual void on_value(Stream&, const Tap&, View /*value*/) {}
  virtual void on_grad(Stream&, const Tap&, View /*grad*/) {}
  // The head, a block of positions at a time: logits, dlogits [n, V], from position `first` of the micro-batch.
  virtual void on_block(Stream&, std::int64_t /*first*/, View /*logits*/, View /*dlogits*/) {}
  // Losses [B, T] of a micro-batch, 0 where the target is ignored.
  virtual void on_losses(Stream&, View /*losses*/, View /*targets*/) {}
};

}  // namespace nascent
