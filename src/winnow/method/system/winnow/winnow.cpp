#include "winnow/method/system/winnow/winnow.h"

#include <ATen/ATen.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/method/local_training.h"
#include "winnow/method/system/winnow/client.h"
#include "winnow/method/system/winnow/geometry.h"

namespace winnow {
namespace {

constexpr const char* kLabelsColumn = "labels";
constexpr const char* kTrustColumn = "trust";
constexpr const char* kConductColumn = "conduct";

JointCounts counts_of(const std::vector<double>& told, std::int64_t classes) {
  JointCounts counts(classes);
  for (std::int64_t i = 0; i < classes; ++i) {
    for (std::int64_t j = 0; j < classes; ++j) {
      counts.add(i, j, static_cast<std::int64_t>(told[static_cast<std::size_t>(i * classes + j)]));
    }
  }
  return counts;
}

NoiseKind kind_of(const CheckedJson& saved) {
  return kNoiseKinds[static_cast<std::size_t>(saved.whole(0, std::ssize(kNoiseKinds) - 1))];
}

}  // namespace

void Winnow::declare(Params& params) {
  params.add("base", base_, "base method, which selects, trains and averages when nothing is wrong")
      .source("spec: winnow 1");
  winnowing::declare(options_, params);
}

void Winnow::check(const Setting& setting) const {
  check_warmup(options_.warmup, setting);
  check_pairs("winnow", setting);
  if (options_.leave > options_.enter) {
    throw Error(ErrorKind::experiment,
                fmt::format("method.leave = {:g}: expected at most method.enter, which is {:g}",
                            options_.leave, options_.enter),
                "a client would be doubted and cleared by the same share of wrong labels");
  }
  base_->check(setting);
}

std::unique_ptr<ClientSide> Winnow::client_side() const {
  return std::make_unique<winnowing::Client>(options_, base_->client_side());
}

std::vector<Exchange> Winnow::exchanges(const Setting& setting) const {
  const Length classes = Length::exactly(setting.classes, "C");
  const Length pairs = Length::exactly(setting.classes * setting.classes, "C C");
  std::vector<Exchange> exchanges = base_->exchanges(setting);
  exchanges.push_back(
      {"look",
       {field::global_model()},
       "look_done",
       {field::numbers("mean", "how sure the global models were of its samples of each label",
                       classes)
            .between(0, 1),
        field::numbers("count", "how many of its samples have each label", classes)
            .at_least(0)
            .counting(Counts::some_samples)}});
  exchanges.push_back(
      {"count",
       {field::numbers("thresholds", "how sure these models were of each label, over all clients",
                       classes)},
       "count_done",
       {field::numbers(
            "counts", "how many of its samples of each label the models took for each class", pairs)
            .at_least(0)
            .counting(Counts::some_samples)}});
  exchanges.push_back(
      {"train_doubted",
       {field::round(), field::global_model(),
        field::numbers("trust",
                       "how much a sample counts, by its label and the class models take it for",
                       pairs)
            .between(0, 1)},
       "train_doubted_done",
       {field::trained_model(), field::whole("samples", "how many samples' worth it trained on")
                                    .counting(Counts::some_samples)}});
  return exchanges;
}

bool Winnow::doubted(std::int64_t client) const {
  const auto known = labels_.find(client);
  return known != labels_.end() && known->second.doubted;
}

Message Winnow::task(const Round& round, std::int64_t client) const {
  if (!doubted(client)) {
    return base_->task(round, client);
  }
  return round.task("train_doubted").set("trust", labels_.at(client).trust);
}

void Winnow::play(std::int64_t number, Server& server) {
  Round round(number, server);
  round.chosen = base_->select(round, round.share());
  base_->begin(round);
  std::vector<Upload> uploads;
  std::vector<std::int64_t> treated;
  round.ask(
      round.chosen, [&](std::int64_t client) { return task(round, client); },
      exchanges(round.setting),
      [&](std::int64_t client, const Message& reply) {
        const double samples = reply.get<std::uint32_t>("samples");
        if (doubted(client)) {
          treated.push_back(client);
        }
        if (samples > 0.0 && options_.guard) {
          uploads.push_back({client, reply, samples});
        } else if (samples > 0.0) {
          base_->add(round, {client, reply, samples});
        }
      });
  if (!treated.empty()) {
    std::ranges::sort(treated);
    round.notes["treated"] = treated;
  }
  if (round.note_replies()) {
    if (options_.guard) {
      admit(round, uploads);
    }
    if (!round.stands_still(base_->can_finish()) && base_->can_finish()) {
      round.global = base_->finish(round);
    }
  }
  if (winnowing::examines(options_, number, round.setting.rounds)) {
    examine(number, server);
  }
}

// spec: winnow 3
void Winnow::admit(Round& round, const std::vector<Upload>& uploads) {
  std::vector<winnowing::Move> moves;
  for (const Upload& upload : uploads) {
    moves.push_back({upload.model(), upload.samples, conduct_[upload.client].course});
  }
  const std::vector<winnowing::Bearing> bearings =
      winnowing::bearings(round.global, moves, options_);
  std::vector<std::int64_t> left_out;
  Json cosines = Json::array();
  for (std::size_t k = 0; k < uploads.size(); ++k) {
    const winnowing::Bearing& bearing = bearings[k];
    conduct_[uploads[k].client] = {bearing.cosine, bearing.course, bearing.struck};
    cosines.push_back({uploads[k].client, bearing.cosine});
    if (bearing.struck) {
      left_out.push_back(uploads[k].client);
    } else {
      base_->add(round, uploads[k]);
    }
  }
  round.notes["cosines"] = std::move(cosines);
  if (!left_out.empty()) {
    std::ranges::sort(left_out);
    round.notes["left_out"] = left_out;
  }
}

void Winnow::examine(std::int64_t number, Server& server) {
  Round round(number, server);
  const std::int64_t classes = round.setting.classes;
  const std::vector<Exchange> rules = exchanges(round.setting);
  std::map<std::int64_t, winnowing::ClassMeans> told;
  round.ask(
      round.pool, [&](std::int64_t) { return Message("look").set("model", round.global); }, rules,
      [&](std::int64_t client, const Message& reply) {
        told[client] = {reply.get<std::vector<double>>("mean"),
                        reply.get<std::vector<double>>("count")};
      });
  const std::vector<double> bars = winnowing::thresholds(told, static_cast<std::size_t>(classes));
  std::vector<std::int64_t> lookers;
  for (const auto& [client, own] : told) {
    lookers.push_back(client);
  }
  std::map<std::int64_t, JointCounts> counts;
  round.ask(
      lookers, [&](std::int64_t) { return Message("count").set("thresholds", bars); }, rules,
      [&](std::int64_t client, const Message& reply) {
        counts.emplace(client, counts_of(reply.get<std::vector<double>>("counts"), classes));
      });
  for (auto& [client, labelling] : winnowing::examine(counts, labels_, options_)) {
    labels_[client] = std::move(labelling);
  }
  std::vector<std::int64_t> unjudged;
  std::ranges::copy_if(round.pool, std::back_inserter(unjudged),
                       [&](std::int64_t client) { return !counts.contains(client); });
  std::vector<std::int64_t> doubts;
  std::ranges::copy_if(round.pool, std::back_inserter(doubts),
                       [this](std::int64_t client) { return doubted(client); });
  round.notes["diagnosis"] = diagnosis();
  round.notes["doubted"] = doubts;
  if (!unjudged.empty()) {
    round.notes["unjudged"] = unjudged;
  }
}

std::string Winnow::diagnosis() const {
  std::map<std::string, std::int64_t> found;
  for (const auto& [client, labelling] : labels_) {
    if (labelling.doubted) {
      ++found[fmt::format("labels ({})", kind_name(labelling.kind))];
    }
  }
  for (const auto& [client, conduct] : conduct_) {
    if (conduct.left_out) {
      ++found["hostile updates"];
    }
  }
  std::string text;
  for (const auto& [what, clients] : found) {
    text += fmt::format("{}{}: {}", text.empty() ? "" : ", ", what, clients);
  }
  return text.empty() ? "nothing wrong" : text;
}

Findings Winnow::findings() const {
  Findings findings;
  if (labels_.empty() && conduct_.empty()) {
    return findings;
  }
  std::set<std::int64_t> flagged;
  for (const auto& [client, labelling] : labels_) {
    findings.noise_levels[client] = labelling.rate;
    findings.scores["wrong_labels"][client] = labelling.rate;
    if (labelling.doubted) {
      flagged.insert(client);
    }
  }
  for (const auto& [client, conduct] : conduct_) {
    findings.scores["update_cosine"][client] = conduct.cosine;
    findings.scores["course"][client] = conduct.course;
    if (conduct.left_out) {
      flagged.insert(client);
    }
  }
  findings.flagged.emplace(flagged.begin(), flagged.end());
  return findings;
}

void Winnow::save(Archive& archive) const {
  base_.save(archive);
  archive.put_column(kLabelsColumn, labels_, [](const winnowing::Labelling& labelling) {
    return Json{{"kind", static_cast<std::int64_t>(labelling.kind)},
                {"rate", labelling.rate},
                {"honest", labelling.honest},
                {"doubted", labelling.doubted}};
  });
  archive.put_column(kTrustColumn, labels_, [](const winnowing::Labelling& labelling) {
    return at::tensor(labelling.trust, at::kDouble);
  });
  archive.put_column(kConductColumn, conduct_, [](const Conduct& own) {
    return Json{{"cosine", own.cosine}, {"course", own.course}, {"left_out", own.left_out}};
  });
}

ByClient<winnowing::Labelling> Winnow::read_labels(const Archive& archive) {
  auto labels = archive.by_client(kLabelsColumn, [](const CheckedJson& saved) {
    winnowing::Labelling labelling;
    labelling.kind = kind_of(saved.at("kind"));
    labelling.rate = saved.at("rate").number(0.0, 1.0);
    labelling.honest = saved.at("honest").number(0.0, 1.0);
    labelling.doubted = saved.at("doubted").truth();
    return labelling;
  });
  const std::int64_t pairs = archive.bounds.classes * archive.bounds.classes;
  for (auto& [client, labelling] : labels) {
    if (!labelling.doubted) {
      continue;
    }
    const at::Tensor trust =
        archive.tensor(fmt::format("{}/{}", kTrustColumn, client), at::kDouble, {pairs});
    if (!trust.defined() || trust.numel() == 0 || trust.min().item<double>() < 0.0 ||
        trust.max().item<double>() > 1.0) {
      throw Error(ErrorKind::run,
                  "trust: expected a row of values from 0 to 1 for every client whose labels are "
                  "doubted");
    }
    const auto* first = trust.data_ptr<double>();
    labelling.trust.assign(first, first + pairs);
  }
  return labels;
}

void Winnow::load(const Archive& archive) {
  base_.load(archive);
  const auto* labels = archive.column<winnowing::Labelling>(kLabelsColumn);
  labels_ = labels != nullptr ? *labels : read_labels(archive);
  const auto* conduct = archive.column<Conduct>(kConductColumn);
  conduct_ =
      conduct != nullptr
          ? *conduct
          : ByClient<Conduct>(archive.by_client(kConductColumn, [](const CheckedJson& saved) {
              return Conduct{saved.at("cosine").number(-1.0, 1.0),
                             saved.at("course").number(-1.0, 1.0), saved.at("left_out").truth()};
            }));
}

MethodInfo winnow_info() {
  return {.name = "winnow",
          .group = "system",
          .summary = "diagnoses what is wrong and treats it, else runs its base",
          .make = [] { return std::make_unique<Winnow>(); },
          .smoke = Json::object({{"rounds", 6},
                                 {"method.warmup", 2},
                                 {"method.every", 2},
                                 {"method.enter", 0.0},
                                 {"method.leave", 0.0},
                                 {"method.doubt", 1.0}})};
}

}  // namespace winnow
