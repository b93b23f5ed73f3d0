#include "winnow/net/join/consent.h"

#include <fmt/format.h>

#include <algorithm>

#include "winnow/base/error.h"

namespace winnow::member {
namespace {

// What a server says cannot look like a further line of ours.
std::string in_one_line(std::string text) {
  std::ranges::replace_if(
      text, [](char c) { return c == '\n' || c == '\t'; }, ' ');
  return printable(text);
}

std::string line_about(const std::string& what, const std::string& says) {
  return fmt::format("  {:<12} {}\n", what, in_one_line(says));
}

// The value of a key of the experiment as text; what is not there is shown as such.
std::string value_of(const Json& table, const char* key) {
  const auto found = table.is_object() ? table.find(key) : table.end();
  if (!table.is_object() || found == table.end()) {
    return "?";
  }
  return found->is_string() ? found->get<std::string>() : found->dump();
}

const Json& part_of(const Json& tree, const char* key) {
  static const Json none;
  const auto found = tree.is_object() ? tree.find(key) : tree.end();
  return tree.is_object() && found != tree.end() ? *found : none;
}

std::string parameters_of(const Json& method) {
  std::string text;
  for (const auto& [key, value] : method.items()) {
    if (key != "name") {
      text += fmt::format("{}{} = {}", text.empty() ? "" : ", ", key, value.dump());
    }
  }
  return text;
}

}  // namespace

std::string consent_text(const Charter& charter, const std::string& hash) {
  const Json& experiment = charter.experiment;
  const Json& method = part_of(experiment, "method");
  const Json& train = part_of(experiment, "train");
  std::string text = fmt::format("The charter of federation {}\n", in_one_line(charter.federation));
  text += line_about("members", std::to_string(charter.members));
  text += line_about("method", value_of(method, "name"));
  if (method.is_object() && method.size() > 1) {
    text += line_about("", parameters_of(method));
  }
  text += line_about("rounds", value_of(experiment, "rounds"));
  text += line_about("network", value_of(part_of(experiment, "model"), "name"));
  text +=
      line_about("training", fmt::format("{} epochs a round, batches of {}",
                                         value_of(train, "epochs"), value_of(train, "batch_size")));
  text += line_about("classes", fmt::format("{}", charter.data.at("class_names").size()));
  text += line_about(
      "images", fmt::format("{}x{}x{}", value_of(charter.data, "channels"),
                            value_of(charter.data, "height"), value_of(charter.data, "width")));
  if (charter.masked) {
    text += line_about("sums", "under masks: the server sees sums of models, never a single one");
  }
  text += "What this member sends to the server:\n";
  for (const std::string& line : charter.leaves) {
    text += fmt::format("  - {}\n", in_one_line(line));
  }
  text += "  - how many samples it has, and how many steps and passes it took\n";
  text += "  - the version of its program, and the name and a fingerprint of its arithmetic\n";
  text += "Its images, its labels and their names stay here.\n";
  text += fmt::format("hash {}\n", hash);
  return printable(text);
}

void require_consent(const Charter& charter, const std::string& hash, const Consent& consent) {
  if (consent.pinned == hash) {
    return;
  }
  if (!consent.given.empty()) {
    if (consent.given == hash) {
      return;
    }
    throw Error(
        ErrorKind::usage,
        fmt::format("--agree {}: the charter of the server has the hash {}", consent.given, hash),
        "read it first: winnow join without --agree shows it");
  }
  const std::string changed =
      consent.pinned.empty() ? "" : "The charter has changed since it was agreed to.\n";
  if (consent.ask && consent.ask(changed + consent_text(charter, hash))) {
    return;
  }
  throw Error(ErrorKind::usage,
              consent.pinned.empty() ? "the charter has not been agreed to"
                                     : "the charter has changed and has not been agreed to again",
              fmt::format("to agree, add: --agree {}", hash));
}

}  // namespace winnow::member
