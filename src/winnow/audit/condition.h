// Conditions on what an audit finds, by which it can fail.
#pragma once

#include <string>
#include <vector>

#include "winnow/audit/audit.h"

namespace winnow {

// One number of an audit that a condition can be about, by name; the names in order.
const std::vector<std::string>& condition_names();
double condition_value(const Audit& audit, const std::string& name);

// "label_noise > 5%". Throws Error(kind usage) with what is expected.
struct Condition {
  std::string name;
  std::string comparison;  // ">", ">=", "<", "<="
  double bound = 0.0;

  bool holds(double value) const;
};
Condition parse_condition(const std::string& text);

}  // namespace winnow
