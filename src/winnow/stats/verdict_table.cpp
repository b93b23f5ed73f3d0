// Written by experiments/audit/calibrate; docs/audit.md has the command.
#include "winnow/stats/verdict.h"

namespace winnow {

const VerdictTable& verdict_table() {
  static const VerdictTable table{{
      {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0},
      {2.6933, 2.2062, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1.3977, 0, 0, 0, -1.3308},
      {0, 0, 0, 0, 0, 2.8696, 0, 0, 0, 0, 0, 0, 0, 8.6512, 5.9817, -4.5984},
      {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 12.934, 0, 0, 0, 0, -3.4189},
      {1.6044, 1.8583, 5.3909, 0, 0, 0, 0, 0, 0, 0, 0, 2.8244, 0, 0, 0, -3.1942},
  }};
  return table;
}

}  // namespace winnow
