// The device that a suite of all devices runs on: the same tests are compiled for the CPU, for CUDA and for CUDA's
// kernels under emulation.
#pragma once

#include "kernels/view.h"

namespace nascent::test {

inline constexpr Device kTestDevice = Device::NASCENT_TEST_DEVICE;

}  // namespace nascent::test
