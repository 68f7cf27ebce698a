// What probes keep from one step to the next, as named arrays: with it a resumed run goes on to the bit.
#pragma once

#include <map>
#include <string>

#include "kernels/linalg.h"

namespace nascent {

using ProbeState = std::map<std::string, DenseMatrix>;  // name: "blocks.0.resid_post/basis/init"

}  // namespace nascent
