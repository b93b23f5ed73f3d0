// Partition and noise of a federation as pictures: an SVG page and lines for a terminal.
#pragma once

#include <cstddef>
#include <string>

#include "winnow/judge/census.h"

namespace winnow {

// A page 1200 pixels wide that needs nothing from outside: the classes of every client by true
// label, the same by given label on the same scale, and the noise level of every client. Of more
// than 120 clients 120 are drawn, evenly chosen from the first to the last, and the caption says
// so; the totals are always those of all clients. Throws Error(kind internal) when a client's
// counts are not one per class and together its samples, or a share is not in 0..1. Where the truth
// is not known only the classes by given label are drawn.
std::string partition_svg(const Census& picture);

// The same for a terminal of `width` columns: the totals, the classes, then each of the first
// `limit` clients with a bar of 10 to 100 cells that is divided among its given classes, in colours
// or else in letters. Noisy clients carry a '!'. What is left out is said, with the option of
// `winnow inspect` that shows it; what is not known is a dash. Throws as partition_svg does.
std::string partition_text(const Census& picture, int width, bool colour, std::size_t limit);

}  // namespace winnow
