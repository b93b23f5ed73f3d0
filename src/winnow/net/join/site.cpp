#include "winnow/net/join/site.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "winnow/base/error.h"
#include "winnow/engine/crew.h"
#include "winnow/engine/members.h"
#include "winnow/engine/threads.h"
#include "winnow/net/mask/masking_client.h"
#include "winnow/train/gpu/device.h"

namespace winnow::member {
namespace {

at::Tensor images_of_bytes(const std::string& bytes, const Charter& charter) {
  if (charter.public_images == 0) {
    return {};
  }
  at::Tensor images = at::empty(
      {charter.public_images, charter.data.at("channels").get<std::int64_t>(),
       charter.data.at("height").get<std::int64_t>(), charter.data.at("width").get<std::int64_t>()},
      at::kByte);
  if (bytes.size() != images.nbytes()) {
    throw Error(ErrorKind::peer, fmt::format("the public images have {} bytes, expected {}",
                                             bytes.size(), images.nbytes()));
  }
  std::memcpy(images.data_ptr(), bytes.data(), bytes.size());
  return images;
}

std::unique_ptr<Workplace> place_of_members(const Charter& charter, const Registry& registry,
                                            std::map<std::int64_t, Samples> held,
                                            const std::string& public_images,
                                            const Runtime& runtime, const std::atomic<bool>* stop) {
  const Experiment experiment = charter_experiment(charter, registry);
  World world =
      member_world(charter, experiment, std::move(held), images_of_bytes(public_images, charter));
  try {
    return std::make_unique<Workplace>(experiment, std::move(world), registry, runtime, stop);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::experiment) {
      throw;
    }
    throw Error(ErrorKind::peer, fmt::format("the charter of the server: {}", error.what()),
                error.hint());
  }
}

std::size_t most_models_asked(const std::vector<Exchange>& exchanges) {
  constexpr std::int64_t kMostPlaces = 65535;  // that a parcel can have
  std::int64_t most = 0;
  for (const Exchange& exchange : exchanges) {
    std::int64_t models = 0;
    for (const FieldRule& field : exchange.asks) {
      if (field.type == FieldType::state) {
        ++models;
      } else if (field.type == FieldType::states) {
        models += field.length.most == Length::kSamples ? kMostPlaces
                                                        : std::min(field.length.most, kMostPlaces);
      }
    }
    most = std::max(most, std::min(models, kMostPlaces));
  }
  return static_cast<std::size_t>(most);
}

Message on_device(const Message& message, at::Device device) {
  Message moved(message.kind());
  for (auto [name, field] : message.fields()) {
    if (auto* model = std::get_if<State>(&field)) {
      *model = model->to(device);
    } else if (auto* models = std::get_if<std::vector<State>>(&field)) {
      for (State& one : *models) {
        one = one.to(device);
      }
    }
    moved.set(name, std::move(field));
  }
  return moved;
}

}  // namespace

World member_world(const Charter& charter, const Experiment& experiment,
                   std::map<std::int64_t, Samples> held, at::Tensor public_images) {
  const Json& contract = charter.data;
  const auto channels = contract.at("channels").get<std::int64_t>();
  const auto height = contract.at("height").get<std::int64_t>();
  const auto width = contract.at("width").get<std::int64_t>();
  DataSet data;
  data.name = "member";
  data.class_names = contract.at("class_names").get<std::vector<std::string>>();
  data.classes = std::ssize(data.class_names);
  data.normalisation = {contract.at("mean").get<std::vector<double>>(),
                        contract.at("std").get<std::vector<double>>()};
  data.crop = contract.at("crop").get<std::int64_t>();
  data.augment = contract.at("augment").get<bool>();
  std::vector<ClientData> clients(static_cast<std::size_t>(charter.members));
  std::vector<at::Tensor> images;
  for (auto& [client, samples] : held) {
    if (client < 0 || client >= charter.members) {
      throw Error(ErrorKind::peer,
                  fmt::format("client {}: the charter has {} members", client, charter.members));
    }
    ClientData& own = clients[static_cast<std::size_t>(client)];
    for (std::int64_t i = 0; i < samples.size(); ++i) {
      own.samples.push_back(std::ssize(data.train.labels) + i);
    }
    own.given = samples.labels;
    data.train.labels.insert(data.train.labels.end(), samples.labels.begin(), samples.labels.end());
    images.push_back(std::move(samples.images));
  }
  const at::Tensor none = at::empty({0, channels, height, width}, at::kByte);
  if (images.size() == 1) {
    data.train.images = std::move(images.front());
  } else {
    data.train.images = images.empty() ? none : at::cat(images);
  }
  if (data.train.images.sizes().slice(1) != none.sizes().slice(1)) {
    throw Error(ErrorKind::internal, "a member's images do not have the shape of the charter");
  }
  data.test = {none, {}};
  World world{std::move(data), std::move(clients), Ledger(experiment.seed, 0, charter.members),
              std::move(public_images)};
  world.truth_known = false;
  world.validation_elsewhere = charter.validation;
  return world;
}

// A lane for as long as it lives.
class Site::Lease {
 public:
  explicit Lease(Site& site, std::optional<std::size_t> wanted = std::nullopt)
      : site_(site), lane_(site.take_lane(wanted)) {}
  ~Lease() { site_.give_back(lane_); }
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;

  std::size_t lane() const { return lane_; }

 private:
  Site& site_;
  std::size_t lane_;
};

Site::Site(const Charter& charter, const Registry& registry, std::map<std::int64_t, Samples> held,
           const std::string& public_images, const Runtime& runtime, const std::atomic<bool>* stop,
           std::map<std::int64_t, Credentials> credentials)
    : place_(place_of_members(charter, registry, std::move(held), public_images, runtime, stop)),
      busy_(static_cast<std::size_t>(place_->crew().lanes()), false) {
  if (layout_digest(place_->crew()) != charter.layout) {
    throw Error(ErrorKind::peer,
                fmt::format("the network {} of the server is not the one of this program",
                            charter.experiment.at("model").at("name").dump()),
                "use the same version of Winnow at both ends");
  }
  exchanges_ = place_->exchanges();
  std::unique_ptr<ClientSide> side = place_->client_side();
  if (charter.masked) {
    const std::string authority =
        credentials.empty() ? std::string() : credentials.begin()->second.authority;
    side = std::make_unique<mask::MaskingClient>(
        std::move(side), exchanges_, mask::MaskTerms{charter.federation, charter.hash(), authority},
        std::move(credentials));
    exchanges_ = mask::masked_exchanges(exchanges_, charter.members);
  }
  if (lines_of(exchanges_) != charter.leaves) {
    throw Error(ErrorKind::peer,
                "the charter of the server says that other things leave a member than its method "
                "takes",
                "do not take part, unless the server has another version of Winnow: then use the "
                "same one at both ends");
  }
  most_models_ = most_models_asked(exchanges_);
  place_->members().serve(std::move(side));
}

std::int64_t Site::samples(std::int64_t client) const {
  return place_->members().samples(client);
}

const LayoutPtr& Site::layout_of(std::int64_t client) const {
  return place_->crew().layout_of(client);
}

std::size_t Site::take_lane(std::optional<std::size_t> wanted) {
  std::unique_lock lock(mutex_);
  std::size_t lane = 0;
  freed_.wait(lock, [&] {
    if (wanted) {
      lane = *wanted;
      return !busy_[lane];
    }
    const auto found = std::ranges::find(busy_, false);
    lane = static_cast<std::size_t>(found - busy_.begin());
    return found != busy_.end();
  });
  busy_[lane] = true;
  return lane;
}

void Site::give_back(std::size_t lane) {
  {
    const std::lock_guard lock(mutex_);
    busy_[lane] = false;
  }
  freed_.notify_all();
}

Message Site::task_in(std::int64_t client, const Parcel& parcel, const FindModel& held) const {
  return unpack_task(parcel, exchanges_,
                     {.layouts = {layout_of(client)}, .samples = samples(client), .model = held});
}

Site::Work Site::answer(std::int64_t client, ClientMemory memory, const Message& task) {
  const Lease lease(*this);
  keep_one_thread_per_operation();
  Crew& crew = place_->crew();
  const Message here = on_device(task, crew.device());
  wait_for(crew.device());  // the lane works on a stream of its own
  Members::Answer answer = place_->members().answer(client, std::move(memory), here, lease.lane());
  Work work;
  // Before the lane is given back: a reply's models are its memory.
  work.reply = pack_reply(answer.reply, task.kind(), exchanges_);
  if (answer.memory.model.defined()) {
    work.own_model = hash({layout_of(client), answer.memory.model});
  }
  work.memory = std::move(answer.memory);
  work.steps = answer.steps;
  work.passes = answer.passes;
  return work;
}

void Site::check_memory(std::int64_t client, const ClientMemory& memory) {
  const Lease lease(*this, 0);  // the one that members check with
  keep_one_thread_per_operation();
  place_->members().restore({{client, memory}});
}

}  // namespace winnow::member
