#include "winnow/net/join/keep.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "winnow/base/checked_json.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/sha256.h"
#include "winnow/net/join/hex.h"
#include "winnow/run/checkpoint.h"

namespace winnow::member {
namespace {

namespace fs = std::filesystem;

constexpr const char* kStateFile = "state.json";
constexpr const char* kOutbox = "outbox";
constexpr std::int64_t kStateFormat = 1;
constexpr std::uintmax_t kLargestState = 16 << 20;
constexpr std::size_t kMostLinks = 100'000;
constexpr std::int64_t kMostUnsigned = std::int64_t{1} << 32;

Error damaged_state(const fs::path& file, const std::string& why) {
  return {ErrorKind::run, fmt::format("{} is damaged: {}", file.string(), why),
          "restore the folder from a backup, or remove it to begin anew: what this member has "
          "learned and not sent is then lost"};
}

std::string hash_in(const CheckedJson& value) {
  std::string text = value.text();
  if (bytes_of_hex(text).size() != 32) {
    throw Error(ErrorKind::run, fmt::format("{} is no SHA-256", value.name()));
  }
  return text;
}

std::uint64_t number_in(const CheckedJson& value) {
  return static_cast<std::uint64_t>(value.count());
}

std::uint32_t small_in(const CheckedJson& value) {
  return static_cast<std::uint32_t>(value.whole(0, kMostUnsigned - 1));
}

// The client under which its memory is encoded: there is only one in a file.
constexpr std::int64_t kSelf = 0;

}  // namespace

Keep::Keep(fs::path folder, Watch watch) : folder_(std::move(folder)), watch_(std::move(watch)) {
  std::error_code failed;
  fs::create_directories(folder_ / kOutbox, failed);
  if (failed) {
    throw Error(ErrorKind::run, fmt::format("cannot create {}: {}", (folder_ / kOutbox).string(),
                                            failed.message()));
  }
  load();
  remove_others();
}

fs::path Keep::memory_file(std::uint64_t order) const {
  return folder_ / fmt::format("memory-{}.safetensors", order);
}

fs::path Keep::outbox_file(std::uint64_t order) const {
  return folder_ / kOutbox / fmt::format("{}.parcel", order);
}

void Keep::step(const std::string& name) const {
  if (watch_) {
    watch_(name);
  }
}

Json Keep::to_json(const Content& content) {
  const auto piece = [](const std::optional<Piece>& file) {
    return file ? Json{{"order", file->order}, {"sha256", file->hash}} : Json(nullptr);
  };
  Json links = Json::array();
  for (const Link& link : content.links) {
    links.push_back({{"order", link.order.number},
                     {"round", link.order.round},
                     {"attempt", link.order.attempt},
                     {"ask", link.order.ask},
                     {"nonce", hex_of(link.order.nonce)},
                     {"accepted", link.accepted},
                     {"memory", piece(link.memory)},
                     {"outbox", link.outbox},
                     {"steps", link.steps},
                     {"forward", link.passes.forward},
                     {"backward", link.passes.backward},
                     {"own_model", link.own_model}});
  }
  return {{"winnow_member", kStateFormat},
          {"federation", content.federation},
          {"charter", content.charter},
          {"client", content.client ? Json(*content.client) : Json(nullptr)},
          {"committed_round", content.committed_round},
          {"settled_up_to", content.settled_up_to},
          {"memory", piece(content.memory)},
          {"links", links}};
}

Keep::Content Keep::content_of(const Json& json) {
  const CheckedJson tree(json, "");
  tree.at("winnow_member").whole(kStateFormat, kStateFormat);
  const auto piece = [](const CheckedJson& value) -> std::optional<Piece> {
    if (value.is_null()) {
      return std::nullopt;
    }
    return Piece{number_in(value.at("order")), hash_in(value.at("sha256"))};
  };
  Content content;
  content.federation = tree.at("federation").text();
  content.charter = tree.at("charter").text();
  if (const CheckedJson client = tree.at("client"); !client.is_null()) {
    content.client = client.count();
  }
  content.committed_round = tree.at("committed_round").count();
  content.settled_up_to = number_in(tree.at("settled_up_to"));
  content.memory = piece(tree.at("memory"));
  for (const CheckedJson& saved : tree.at("links").elements()) {
    Link link;
    link.order = {number_in(saved.at("order")), small_in(saved.at("round")),
                  small_in(saved.at("attempt")), small_in(saved.at("ask")),
                  bytes_of_hex(saved.at("nonce").text())};
    link.accepted = saved.at("accepted").truth();
    link.memory = piece(saved.at("memory"));
    link.outbox = hash_in(saved.at("outbox"));
    link.steps = saved.at("steps").count();
    link.passes = {saved.at("forward").count(), saved.at("backward").count()};
    link.own_model = saved.at("own_model").text();
    if (!content.links.empty() && content.links.back().order.number >= link.order.number) {
      throw Error(ErrorKind::run, "its links are not in order");
    }
    content.links.push_back(std::move(link));
  }
  return content;
}

void Keep::load() {
  const fs::path file = folder_ / kStateFile;
  if (!fs::exists(file)) {
    return;
  }
  try {
    content_ = content_of(parse_json(read_file(file, kLargestState), "the text"));
  } catch (const Error& error) {
    throw damaged_state(file, error.what());
  }
  // All of it now, so that damage is known before anything is promised to a server.
  if (content_.memory) {
    std::ignore = read_checked(memory_file(content_.memory->order), content_.memory->hash);
  }
  for (const Link& link : content_.links) {
    if (link.memory) {
      std::ignore = read_checked(memory_file(link.memory->order), link.memory->hash);
    }
    std::ignore = outgoing(link.order);
  }
}

std::string Keep::read_checked(const fs::path& path, const std::string& hash) const {
  std::string bytes;
  try {
    bytes = read_file(path);
  } catch (const Error& error) {
    throw damaged_state(path, error.what());
  }
  if (sha256_hex(bytes) != hash) {
    throw damaged_state(path, "it does not have the hash it was saved with");
  }
  return bytes;
}

void Keep::replace_by(Content content) {
  step("state");
  write_file_whole(folder_ / kStateFile, to_json(content).dump(1) + "\n");
  content_ = std::move(content);
  step("clean");
  remove_others();
}

// What state.json does not name: files of links that went, or that a crash left before they
// counted. Only what is called like ours.
void Keep::remove_others() const {
  std::set<fs::path> named;
  if (content_.memory) {
    named.insert(memory_file(content_.memory->order));
  }
  for (const Link& link : content_.links) {
    if (link.memory) {
      named.insert(memory_file(link.memory->order));
    }
    named.insert(outbox_file(link.order.number));
  }
  std::error_code ignored;
  for (const fs::path& place : {folder_, folder_ / kOutbox}) {
    std::vector<fs::path> gone;
    for (const auto& entry : fs::directory_iterator(place, ignored)) {
      const std::string name = entry.path().filename().string();
      const bool ours = (name.starts_with("memory-") && name.ends_with(".safetensors")) ||
                        name.ends_with(".parcel") || is_leftover(entry.path());
      if (ours && !named.contains(entry.path())) {
        gone.push_back(entry.path());
      }
    }
    for (const fs::path& file : gone) {
      fs::remove(file, ignored);
    }
  }
}

const Keep::Link* Keep::link_of(std::uint64_t order) const {
  const auto found = std::ranges::find_if(
      content_.links, [order](const Link& link) { return link.order.number == order; });
  return found == content_.links.end() ? nullptr : &*found;
}

void Keep::agree(const std::string& federation, const std::string& charter) {
  if (content_.charter == charter && content_.federation == federation) {
    return;
  }
  Content content;
  content.federation = federation;
  content.charter = charter;
  replace_by(std::move(content));
}

void Keep::become(std::int64_t client) {
  if (content_.client == client) {
    return;
  }
  if (content_.client) {
    throw Error(ErrorKind::peer,
                fmt::format("the server calls this member client {}, it was client {} before",
                            client, *content_.client),
                "use the state folder that belongs to this certificate");
  }
  Content content = content_;
  content.client = client;
  replace_by(std::move(content));
}

ClientMemory Keep::memory() const {
  const std::optional<Piece>& last =
      content_.links.empty() ? content_.memory : content_.links.back().memory;
  if (!last) {
    return {};
  }
  const fs::path file = memory_file(last->order);
  const std::string bytes = read_checked(file, last->hash);
  try {
    std::map<std::int64_t, ClientMemory> memories = decode_memories(bytes, "the file");
    return std::move(memories[kSelf]);
  } catch (const Error& error) {
    throw damaged_state(file, error.what());
  }
}

bool Keep::answered(const OrderName& order) const {
  const Link* link = link_of(order.number);
  return link != nullptr && link->order == order;
}

Outgoing Keep::outgoing(const OrderName& order) const {
  const Link* link = link_of(order.number);
  if (link == nullptr) {
    throw Error(ErrorKind::internal, fmt::format("order {} was not answered", order.number));
  }
  const fs::path file = outbox_file(order.number);
  const std::string bytes = read_checked(file, link->outbox);
  try {
    return {parcel_of(bytes), link->steps, link->passes, link->own_model};
  } catch (const Error& error) {
    throw damaged_state(file, error.what());
  }
}

std::optional<std::uint64_t> Keep::undecided() const {
  if (content_.links.empty() || content_.links.back().accepted) {
    return std::nullopt;
  }
  return content_.links.back().order.number;
}

std::uint64_t Keep::newest() const {
  return std::max(content_.settled_up_to,
                  content_.links.empty() ? 0 : content_.links.back().order.number);
}

void Keep::add(const OrderName& order, const Outgoing& outgoing, const ClientMemory& memory) {
  if (order.number <= newest() || content_.links.size() >= kMostLinks) {
    throw Error(ErrorKind::internal, fmt::format("order {} comes too late", order.number));
  }
  Link link;
  link.order = order;
  link.steps = outgoing.steps;
  link.passes = outgoing.passes;
  link.own_model = outgoing.own_model;
  if (!memory.empty()) {
    const std::string bytes = encode_memories({{kSelf, memory}});
    link.memory = Piece{order.number, sha256_hex(bytes)};
    step("memory");
    write_file_whole(memory_file(order.number), bytes);
  }
  const std::string parcel = bytes_of(outgoing.reply);
  link.outbox = sha256_hex(parcel);
  step("outbox");
  write_file_whole(outbox_file(order.number), parcel);
  Content content = content_;
  content.links.push_back(std::move(link));
  replace_by(std::move(content));
}

void Keep::settle(std::uint64_t order, Fate fate) {
  const Link* link = link_of(order);
  if (link == nullptr || fate == Fate::open || (fate == Fate::accepted && link->accepted)) {
    return;
  }
  Content content = content_;
  const auto place = content.links.begin() + (link - content_.links.data());
  if (fate == Fate::accepted) {
    place->accepted = true;
  } else {
    content.links.erase(place, content.links.end());
  }
  replace_by(std::move(content));
}

void Keep::learn(std::int64_t committed_round, std::uint32_t attempt,
                 const std::vector<std::pair<std::uint64_t, Fate>>& settled) {
  if (committed_round < content_.committed_round) {
    throw Error(ErrorKind::peer,
                fmt::format("the server has {} rounds, this member has seen {}", committed_round,
                            content_.committed_round),
                "if the federation begins anew, remove this member's state folder");
  }
  Content content = content_;
  std::vector<Link>& links = content.links;
  bool changed = committed_round != content.committed_round;
  for (const auto& [order, fate] : settled) {
    if (fate == Fate::open) {
      continue;
    }
    if (order > content.settled_up_to) {
      content.settled_up_to = order;
      changed = true;
    }
    const auto link = std::ranges::find_if(
        links, [number = order](const Link& each) { return each.order.number == number; });
    if (link == links.end() || (fate == Fate::accepted && link->accepted)) {
      continue;
    }
    changed = true;
    if (fate == Fate::accepted) {
      link->accepted = true;
    } else {
      links.erase(link, links.end());
    }
  }
  content.committed_round = committed_round;
  while (!links.empty() && links.front().order.round < committed_round) {
    if (!links.front().accepted) {
      // The round went on without the reply, and so without what was built on it.
      links.clear();
      changed = true;
      break;
    }
    content.memory = links.front().memory;
    links.erase(links.begin());
  }
  const auto stale = std::ranges::find_if(
      links, [attempt](const Link& link) { return link.order.attempt < attempt; });
  if (stale != links.end()) {
    links.erase(stale, links.end());
    changed = true;
  }
  if (changed) {
    replace_by(std::move(content));
  }
}

}  // namespace winnow::member
