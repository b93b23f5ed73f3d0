// Written by experiments/audit/calibrate; docs/audit.md has the command.
#include "winnow/stats/verdict.h"

namespace winnow {

const VerdictTable& verdict_table() {
  static const VerdictTable table{{
      {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
      {2.6696, 2.1958, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1.3298, 0, 0, 0, -1.3462},
      {0, 0, 0, 0, 0, 2.8586, 0, 0, 0, 0, 0, 0, 0, 8.6883, 6.0508, -4.6371},
      {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12.934, 0, 0, 0, 0, -3.4189},
      {1.5241, 1.9163, 5.0672, 0, 0, 0, 0, 0, 0, 0, 0, 2.9796, 0, 0, 0, -3.1773},
  }};
  return table;
}

}  // namespace winnow
