// What the kernels of this process make of a fixed exercise.
#pragma once

#include <string>

namespace winnow {

// The first 16 hexadecimal digits of a digest over matrix products, convolutions forward and
// backward, elementary functions, sums and random draws, all on a CPU with one thread per operation
// (which it sets). Two processes with different fingerprints do not compute the same bits. Done
// once per process, in some milliseconds.
const std::string& fingerprint();

}  // namespace winnow
