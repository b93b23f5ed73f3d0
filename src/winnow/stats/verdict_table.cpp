// Written by experiments/audit/calibrate; docs/audit.md has the command.
#include "winnow/stats/verdict.h"

namespace winnow {

const VerdictTable& verdict_table() {
  static const VerdictTable table{{
      {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0.11713},
      {2.2255, 1.2561, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1.2012, 0, 0, -0.26263},
      {0, 0, 0, 0, 6.0942, 2.0721, 0, 0, 0, 0, 0, 0, -4.2264, -4.1073, -2.5235},
      {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 7.5973, 0, 0, 0, -1.9992},
      {2.6689, 0.76155, 4.1202, 0.65941, 0, 0, 0, 0, 0, 0, 0, 2.1388, 0, 0, -2.555},
  }};
  return table;
}

}  // namespace winnow
