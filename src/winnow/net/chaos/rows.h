// The fault table: what is done to a federation, and what must come of it.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "winnow/net/chaos/stage.h"

namespace winnow::chaos {

struct Row {
  int number;
  const char* fault;
  const char* expected;
  // Plays it in a folder of its own and returns what was seen. Throws Failed and Skipped.
  std::string (*play)(const Stage& stage, const std::filesystem::path& folder);
};

// All 25, by number.
const std::vector<Row>& rows();

// What they are made of, by who is hit.
void add_server_rows(std::vector<Row>& rows);  // 1, 2, 5, 21, 25
void add_member_rows(std::vector<Row>& rows);  // 3, 4, 22, 23, 24
void add_line_rows(std::vector<Row>& rows);    // 6, 7, 19, 20
void add_reply_rows(std::vector<Row>& rows);   // 8 to 15
void add_door_rows(std::vector<Row>& rows);    // 16, 17, 18

}  // namespace winnow::chaos
