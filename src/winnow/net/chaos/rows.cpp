#include "winnow/net/chaos/rows.h"

#include <algorithm>

namespace winnow::chaos {

const std::vector<Row>& rows() {
  static const std::vector<Row> all = [] {
    std::vector<Row> made;
    add_server_rows(made);
    add_member_rows(made);
    add_line_rows(made);
    add_reply_rows(made);
    add_door_rows(made);
    std::ranges::sort(made, {}, &Row::number);
    return made;
  }();
  return all;
}

}  // namespace winnow::chaos
