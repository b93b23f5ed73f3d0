#include "winnow/mpi/worker.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/cuda.h>

#include <algorithm>
#include <filesystem>
#include <span>
#include <system_error>
#include <tuple>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/base/json.h"
#include "winnow/base/sha256.h"
#include "winnow/engine/crew.h"
#include "winnow/engine/local_examiner.h"
#include "winnow/engine/members.h"
#include "winnow/mpi/desk.h"
#include "winnow/mpi/node_world.h"
#include "winnow/run/checkpoint.h"

namespace winnow {
namespace {

constexpr std::int64_t kImagesCompared = 64;

void add_labels(Sha256& digest, const Labels& labels) {
  digest.update(std::as_bytes(std::span(labels)));
}

void add_some_images(Sha256& digest, const Samples& samples) {
  const std::int64_t count = samples.size();
  for (std::int64_t i = 0; i < std::min(count, kImagesCompared); ++i) {
    const at::Tensor image =
        samples.images[i * count / std::min(count, kImagesCompared)].contiguous();
    digest.update({static_cast<const std::byte*>(image.data_ptr()), image.nbytes()});
  }
}

template <typename Value>
std::vector<std::int64_t> keys(const std::map<std::int64_t, Value>& values) {
  std::vector<std::int64_t> keys;
  for (const auto& [key, value] : values) {
    keys.push_back(key);
  }
  return keys;
}

LayoutPtr layout_with(const Crew& crew, const std::string& digest) {
  for (const LayoutPtr& layout : crew.layouts()) {
    if (layout->digest() == digest) {
      return layout;
    }
  }
  throw Error(ErrorKind::internal, "rank 0 sends a model of a network that is not known here");
}

}  // namespace

Runtime settled(const Runtime& runtime, const Ranks& ranks) {
  Runtime own = runtime;
  if (own.device == "cuda" || (own.device == "auto" && torch::cuda::is_available())) {
    const auto devices = static_cast<int>(torch::cuda::device_count());
    if (ranks.node_size() > devices && torch::cuda::is_available()) {
      throw Error(ErrorKind::usage,
                  fmt::format("{} ranks on this node share {} GPUs, expected one for each",
                              ranks.node_size(), devices),
                  "start fewer ranks on a node, or use --device cpu");
    }
    own.device = fmt::format("cuda:{}", ranks.node_rank());
  }
  if (own.lanes == 0 && !own.device.starts_with("cuda")) {
    own.lanes = std::max(1, ranks.cores() / ranks.sharers());
  }
  return own;
}

std::string digest_of(const Workplace& place) {
  const World& world = place.world();
  Sha256 digest;
  digest.update(world.ledger.hash());
  digest.update(place.crew().layout()->digest());
  for (const Samples* samples : {&world.data.train, &world.data.test, &world.data.validation}) {
    add_labels(digest, samples->labels);
    if (samples->size() > 0) {
      add_some_images(digest, *samples);
    }
  }
  for (const ClientData& client : world.clients) {
    digest.update(std::as_bytes(std::span(client.samples)));
    add_labels(digest, client.given);
  }
  return digest.hex();
}

int Worker::serve() {
  for (;;) {
    const std::string message = ranks_.receive(0, Tag::command);
    ByteReader bytes(message);
    const auto command = bytes.get<Command>();
    if (command == Command::stop) {
      return bytes.get<int>();
    }
    halt_ = is_stopped();
    obey(command, bytes);
    ranks_.flush();
  }
}

void Worker::obey(Command command, ByteReader& bytes) {
  if (command == Command::close) {
    place_.reset();
    shelf_.clear();
    kept_.clear();
  } else if (command == Command::rollback) {
    shelf_.clear();
    kept_.clear();
    place_->members().rollback();
  } else if (command == Command::ask) {
    ask(bytes);
  } else if (command == Command::fold) {
    fold(bytes);
  } else {
    try {
      ByteWriter done;
      done.put(Outcome::done);
      answer(command, bytes, done);
      ranks_.send(0, Tag::answer, done.take());
      for (at::Tensor& values : std::exchange(following_, {})) {
        ranks_.send(0, values);
      }
    } catch (...) {
      ranks_.send(0, Tag::answer, failure_answer());
    }
  }
}

void Worker::answer(Command command, ByteReader& bytes, ByteWriter& answer) {
  if (command == Command::open) {
    open(bytes, answer);
    return;
  }
  Members& members = place_->members();
  switch (command) {
    case Command::score:
      score(bytes, answer);
      break;
    case Command::score_each: {
      const auto scores = place_->examiner().score_each(members.own_models());
      answer.list(keys(scores));
      for (const auto& [client, one] : scores) {
        put(answer, one);
      }
      break;
    }
    case Command::right_by_class: {
      const auto right = place_->examiner().right_by_class(bytes.get<Kept>());
      answer.list(keys(right));
      for (const auto& [client, counts] : right) {
        answer.list(counts);
      }
      break;
    }
    case Command::own_hashes: {
      const auto hashes = hashes_of(members.own_models());
      answer.list(keys(hashes));
      for (const auto& [client, hash] : hashes) {
        answer.text(hash);
      }
      break;
    }
    case Command::own_models: {
      const ModelsByClient models = members.own_models();
      answer.list(keys(models));
      for (const auto& [client, model] : models) {
        following_.push_back(model.flat.to(at::kCPU).contiguous());
      }
      break;
    }
    case Command::commit: {
      const std::vector<std::int64_t> changed = members.commit();
      answer.list(changed);
      for (const std::int64_t client : changed) {
        const auto found = members.traces().find(client);
        put(answer, found == members.traces().end() ? Trace() : found->second);
      }
      break;
    }
    case Command::look: {
      std::error_code ignored;
      answer.put(std::filesystem::exists(bytes.text(), ignored));
      break;
    }
    case Command::save:
      save(bytes, answer);
      break;
    case Command::restore:
      members.restore(decode_memories(bytes.text(), "the checkpoint"));
      log_.reset();
      break;
    default:
      throw Error(ErrorKind::internal, "rank 0 sends an unknown command");
  }
}

void Worker::save(ByteReader& bytes, ByteWriter& answer) {
  const std::string folder = bytes.text();
  Members& members = place_->members();
  if (!log_) {
    log_.emplace(folder, ranks_.rank());
  }
  for (const std::int64_t client : members.take_changed()) {
    const ClientRecord record{.memory = members.committed(client)};
    log_->append(client, encode_record(client, record), true);
  }
  const std::vector<MemoryPart> parts = log_->settle();
  answer.put(static_cast<std::uint64_t>(parts.size()));
  for (const MemoryPart& part : parts) {
    answer.text(part.file).text(part.hash).put(static_cast<std::uint64_t>(part.bytes));
  }
}

void Worker::open(ByteReader& bytes, ByteWriter& answer) {
  log_.reset();
  place_.reset();
  shelf_.clear();
  Runtime runtime;
  runtime.lanes = bytes.get<std::int64_t>();
  runtime.device = bytes.text();
  runtime.precision = bytes.text();
  runtime.client_memory_mb = bytes.get<std::int64_t>();
  ranks_.be_patient(bytes.get<double>());
  const std::string text = bytes.text();
  const auto experiment = [&] {
    return parse_experiment(parse_json(text, "the experiment"), registry_);
  };
  // Nothing may fail before: the other ranks of the node wait for this one there.
  World world = world_of_node(ranks_, [&] { return make_world(experiment(), registry_); });
  place_ = std::make_unique<Workplace>(experiment(), std::move(world), registry_,
                                       settled(runtime, ranks_), &halt_);
  place_->members().serve(place_->client_side());
  answer.put(place_->crew().lanes()).put(static_cast<std::int64_t>(ranks_.cores()));
  answer.text(digest_of(*place_));
}

std::map<std::string, State> Worker::receive_models(ByteReader& bytes) {
  std::map<std::string, State> models;
  const auto count = bytes.get<std::uint64_t>();
  for (std::uint64_t i = 0; i < count; ++i) {
    const std::string digest = bytes.text();
    const LayoutPtr layout = layout_with(place_->crew(), bytes.text());
    const bool comes = bytes.get<bool>();
    const std::vector<int> receivers = bytes.list<int>();
    if (!comes) {
      models[digest] = shelf_.use(digest).value();
      continue;
    }
    const TreePlace place = place_in_tree(receivers, ranks_.rank());
    at::Tensor values = at::empty({layout->total()}, at::kFloat);
    ranks_.receive(place.parent, values);
    for (const int child : place.children) {
      ranks_.send(child, values);
    }
    const State model = State{layout, values}.to(place_->crew().device());
    shelf_.put(digest, model.bytes(), model);
    models[digest] = model;
  }
  return models;
}

bool Worker::is_cancelled(std::uint64_t ask) {
  while (const auto arrival = ranks_.poll(Tag::cancel, 0)) {
    if (ByteReader(arrival->bytes).get<std::uint64_t>() == ask) {
      return true;
    }
  }
  return false;
}

void Worker::ask(ByteReader& bytes) {
  try {
    kept_.clear();
    const auto number = bytes.get<std::uint64_t>();
    const auto form = get_form(bytes);
    std::map<std::string, State> models = receive_models(bytes);
    std::vector<DeskOrder> orders(bytes.get<std::uint64_t>());
    for (DeskOrder& order : orders) {
      order.client = bytes.get<std::int64_t>();
      order.parcel = bytes.text();
    }
    const std::size_t count = orders.size();
    const auto most = static_cast<std::size_t>(4 * place_->crew().lanes());
    Desk desk(*place_, std::move(orders), std::move(models), form);
    Backoff backoff;
    for (std::size_t sent = 0; sent < count;) {
      halt_ = halt_ || is_stopped() || is_cancelled(number);
      const std::size_t under_way = ranks_.under_way();
      if (under_way > 0) {
        backoff.reset();  // what is on its way goes on only when MPI is called
      }
      if (under_way >= most) {  // rank 0 is behind
        backoff.rest();
      } else if (auto reply = desk.next(backoff.next())) {
        send_reply(ranks_, *reply, !form);
        if (form) {
          kept_.push_back(take_models(*reply));
        }
        backoff.reset();
        ++sent;
      }
    }
    desk.note();
  } catch (...) {
    kept_.clear();
    ranks_.send(0, Tag::answer, failure_answer());
  }
}

void Worker::fold(ByteReader& bytes) {
  try {
    std::ignore = add_up(ranks_, place_->crew().layout(), get_fold_plan(bytes), kept_);
  } catch (...) {
    ranks_.give_up();  // the others wait for what this rank owes them
  }
  kept_.clear();
}

void Worker::score(ByteReader& bytes, ByteWriter& answer) {
  const std::map<std::string, State> models = receive_models(bytes);
  const auto on = bytes.get<LocalExaminer::On>();
  std::vector<State> states;
  std::map<std::string, std::size_t> places;
  for (const auto& [digest, model] : models) {
    places[digest] = states.size();
    states.push_back(model);
  }
  std::vector<LocalExaminer::Piece> pieces(bytes.get<std::uint64_t>());
  for (LocalExaminer::Piece& piece : pieces) {
    piece.model = places.at(bytes.text());
    piece.piece = static_cast<std::size_t>(bytes.get<std::uint64_t>());
  }
  for (const Score& score : place_->examiner().score_pieces(states, on, pieces)) {
    put(answer, score);
  }
}

}  // namespace winnow
