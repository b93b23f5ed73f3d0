#include "winnow/net/join/take_part.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <charconv>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <thread>
#include <tuple>

#include "winnow/base/arithmetic.h"
#include "winnow/base/build_info.h"
#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/sha256.h"
#include "winnow/engine/fingerprint.h"
#include "winnow/net/join/drive.h"
#include "winnow/net/join/joiner.h"
#include "winnow/net/join/member_data.h"
#include "winnow/net/join/offer.h"
#include "winnow/net/join/own_audit.h"
#include "winnow/net/join/refusal.h"
#include "winnow/run/directory_lock.h"
#include "winnow/train/lane.h"

namespace winnow::member {
namespace {

constexpr const char* kPublicFile = "public-images";
constexpr std::size_t kFewMembers = 100;

// A recruit that the server knows.
struct Enlisted {
  std::string name;
  std::filesystem::path data;
  std::unique_ptr<DirectoryLock> lock;  // of its state
  std::unique_ptr<Channel> channel;
  std::unique_ptr<Keep> keep;
  std::string process;
  std::int64_t client = 0;
};

void say_if(const PartOptions& options, const std::string& line) {
  if (options.say) {
    options.say(printable(line));
  }
}

void pause_for(double seconds, const std::atomic<bool>* stop) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (std::chrono::steady_clock::now() < end) {
    if (stop != nullptr && stop->load()) {
      throw Interrupted();
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

// Tries until the server answers, and says once what is in the way.
template <typename Action>
auto patiently(const Recruit& recruit, const PartOptions& options, const Action& action) {
  Patience patience(1.0, 60.0);
  std::string said;
  while (true) {
    try {
      return action();
    } catch (const Unreachable& error) {
      if (options.stop != nullptr && options.stop->load()) {
        throw Interrupted();
      }
      const Diagnosis diagnosis =
          examine(options.server.host, options.server.port, recruit.credentials);
      const std::string sentence = diagnosis.fine ? error.what() : diagnosis.sentence;
      if (sentence != said) {
        said = sentence;
        say_if(options, fmt::format("{}: {}; trying again{}", recruit.name, sentence,
                                    diagnosis.hint.empty() ? "" : " (" + diagnosis.hint + ")"));
      }
      pause_for(patience.wait(1.0), options.stop);
    }
  }
}

std::unique_ptr<Channel> channel_of(const Recruit& recruit, const PartOptions& options) {
  std::unique_ptr<Channel> channel =
      open_channel(options.server.host, options.server.port, recruit.credentials, options.stop);
  return options.wrap ? options.wrap(std::move(channel), recruit.name) : std::move(channel);
}

Offer offer_for(const Recruit& recruit, Channel& channel, const std::string& process,
                const PartOptions& options) {
  Offer offer = patiently(recruit, options, [&] { return ask_offer(channel, process); });
  const std::string own = read_certificate(recruit.credentials.certificate).federation;
  if (own != offer.charter.federation) {
    throw Error(ErrorKind::peer,
                fmt::format("the charter is of federation {}, the certificate of {}",
                            offer.charter.federation, own));
  }
  return offer;
}

// Public images are large and the same for all: fetched once, then read from the disk.
std::string public_images_of(const Recruit& recruit, Channel& channel, const Charter& charter,
                             const PartOptions& options) {
  if (charter.public_images == 0) {
    return {};
  }
  const std::filesystem::path file = recruit.state / kPublicFile;
  std::error_code ignored;
  if (std::filesystem::exists(file, ignored)) {
    std::string saved = read_file(file);
    if (sha256_hex(saved) == charter.public_digest) {
      return saved;
    }
  }
  std::string images =
      patiently(recruit, options, [&] { return fetch_public_images(channel, charter); });
  write_file_whole(file, images);
  return images;
}

// A connection and some files for each.
void allow_many_files(std::size_t members) {
  rlimit limit{};
  if (members > kFewMembers && ::getrlimit(RLIMIT_NOFILE, &limit) == 0) {
    limit.rlim_cur = limit.rlim_max;
    ::setrlimit(RLIMIT_NOFILE, &limit);
  }
}

std::unique_ptr<DirectoryLock> lock_state(const std::filesystem::path& folder) {
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) {
    throw Error(ErrorKind::run,
                fmt::format("cannot create {}: {}", folder.string(), failed.message()));
  }
  return std::make_unique<DirectoryLock>(
      folder, fmt::format("another process takes part with the state in {}", folder.string()));
}

void check_clients(const std::vector<Enlisted>& enlisted) {
  std::map<std::int64_t, std::string> names;
  for (const Enlisted& each : enlisted) {
    const auto [place, added] = names.emplace(each.client, each.name);
    if (!added) {
      throw Error(ErrorKind::peer, fmt::format("the server calls both {} and {} client {}",
                                               place->second, each.name, each.client));
    }
  }
}

void note_arithmetic(const Charter& charter, const PartOptions& options) {
  if (charter.arithmetic != current_arithmetic()) {
    say_if(options,
           fmt::format("the server computes with the arithmetic {}, this machine with {}: results "
                       "will not match to the last bit (--arithmetic {} would make them match)",
                       charter.arithmetic, current_arithmetic(), charter.arithmetic));
  }
}

Joiner make_joiner(Enlisted& member, Site& site, Shelf& shelf, const std::string& charter_hash,
                   const PartOptions& options) {
  const auto say = [&options, name = member.name](const std::string& line) {
    say_if(options, fmt::format("{}: {}", name, line));
  };
  return Joiner({.name = member.name,
                 .channel = *member.channel,
                 .site = site,
                 .shelf = shelf,
                 .keep = *member.keep,
                 .client = member.client,
                 .charter_hash = charter_hash,
                 .process = member.process,
                 .version = build_info::kVersion,
                 .arithmetic = current_arithmetic(),
                 .fingerprint = fingerprint(),
                 .say = say});
}

Outcome outcome_of(std::vector<Joiner>& joiners, const std::vector<Ending>& endings,
                   const PartOptions& options) {
  Outcome outcome;
  for (std::size_t i = 0; i < joiners.size(); ++i) {
    outcome.answered += joiners[i].answered();
    if (endings[i].finished) {
      ++outcome.finished;
      outcome.model_hash = joiners[i].model_hash();
    } else if (endings[i].failure) {
      ++outcome.failed;
      if (joiners.size() == 1) {
        std::rethrow_exception(endings[i].failure);
      }
      try {
        std::rethrow_exception(endings[i].failure);
      } catch (const std::exception& error) {
        say_if(options, fmt::format("{}: {}", joiners[i].name(), error.what()));
      }
    }
  }
  outcome.interrupted = outcome.finished + outcome.failed < joiners.size();
  return outcome;
}

// What an audit found at members that were there to the end goes to their own disks.
void write_audits(const std::vector<Recruit>& recruits, const std::vector<Enlisted>& enlisted,
                  const std::vector<Ending>& endings, const Site& site, const Charter& charter,
                  const PartOptions& options) {
  for (std::size_t i = 0; i < enlisted.size(); ++i) {
    if (endings[i].finished && is_audit(charter)) {
      const ClientMemory memory = enlisted[i].keep->memory();
      const std::string line =
          write_own_audit(recruits[i].state / "audit", charter,
                          {enlisted[i].name, enlisted[i].client, site.world(), memory,
                           read_member_names(enlisted[i].data, charter)});
      say_if(options, fmt::format("{}: {}", enlisted[i].name, line));
    }
  }
}

}  // namespace

ServerAddress parse_address(const std::string& text) {
  const std::size_t colon = text.rfind(':');
  ServerAddress address;
  if (colon != std::string::npos) {
    address.host = text.substr(0, colon);
    if (address.host.starts_with('[') && address.host.ends_with(']')) {
      address.host = address.host.substr(1, address.host.size() - 2);
    }
    const char* end = text.data() + text.size();
    const auto [rest, error] = std::from_chars(text.data() + colon + 1, end, address.port);
    if (error != std::errc() || rest != end) {
      address.port = 0;
    }
  }
  if (address.host.empty() || address.port == 0) {
    throw Error(ErrorKind::usage, fmt::format("--server {}: expected HOST:PORT", text),
                "for example --server fl.example.org:8790");
  }
  return address;
}

Diagnosis check_server(const ServerAddress& server, const Credentials& credentials) {
  Diagnosis diagnosis = examine(server.host, server.port, credentials);
  if (!diagnosis.fine) {
    return diagnosis;
  }
  try {
    const std::unique_ptr<Channel> channel =
        open_channel(server.host, server.port, credentials, nullptr);
    std::ignore = ask_offer(*channel, random_process());
  } catch (const Unreachable& error) {
    return {false, printable(error.what()), ""};
  } catch (const Error& error) {
    return {false, error.what(), error.hint()};
  }
  return diagnosis;
}

Outcome take_part(std::vector<Recruit> recruits, const Registry& registry,
                  const PartOptions& options) {
  allow_many_files(recruits.size());
  std::vector<Enlisted> enlisted;
  std::optional<Offer> agreed;
  for (const Recruit& recruit : recruits) {
    Enlisted member{recruit.name,
                    recruit.data,
                    lock_state(recruit.state),
                    channel_of(recruit, options),
                    std::make_unique<Keep>(recruit.state),
                    random_process()};
    Offer offer = offer_for(recruit, *member.channel, member.process, options);
    if (!agreed || agreed->hash != offer.hash) {
      require_consent(offer.charter, offer.hash,
                      {member.keep->charter(), options.agree, options.ask});
    }
    member.keep->agree(offer.charter.federation, offer.hash);
    member.client = patiently(recruit, options,
                              [&] { return accept_offer(*member.channel, offer, member.process); });
    member.keep->become(member.client);
    agreed = std::move(offer);
    enlisted.push_back(std::move(member));
  }
  if (!agreed) {
    throw Error(ErrorKind::usage, "there is nobody to take part");
  }
  check_clients(enlisted);
  note_arithmetic(agreed->charter, options);
  std::map<std::int64_t, Samples> held;
  std::map<std::int64_t, Credentials> credentials;
  for (std::size_t i = 0; i < enlisted.size(); ++i) {
    held[enlisted[i].client] = read_member_data(enlisted[i].data, agreed->charter);
    credentials[enlisted[i].client] = recruits[i].credentials;
  }
  const std::string images =
      public_images_of(recruits.front(), *enlisted.front().channel, agreed->charter, options);
  Site site(agreed->charter, registry, std::move(held), images, options.runtime, options.stop,
            std::move(credentials));
  Shelf shelf;
  std::vector<Joiner> joiners;
  joiners.reserve(enlisted.size());
  std::vector<Joiner*> members;
  for (Enlisted& member : enlisted) {
    try {
      site.check_memory(member.client, member.keep->memory());
    } catch (const Error& error) {
      throw Error(error.kind(),
                  fmt::format("{}: what it remembers does not fit: {}", member.name, error.what()),
                  error.hint());
    }
    joiners.push_back(make_joiner(member, site, shelf, agreed->hash, options));
    members.push_back(&joiners.back());
  }
  say_if(options, fmt::format("taking part in federation {} as {}", agreed->charter.federation,
                              recruits.size() == 1 ? recruits.front().name
                                                   : fmt::format("{} members", recruits.size())));
  // Some fetch and send while all lanes work.
  const std::size_t threads = std::min(members.size(), site.lanes() + 3);
  const std::vector<Ending> endings = drive(members, threads, options.stop, options.say);
  write_audits(recruits, enlisted, endings, site, agreed->charter, options);
  return outcome_of(joiners, endings, options);
}

void leave_federation(const Recruit& recruit, const PartOptions& options) {
  const std::unique_ptr<Channel> channel = channel_of(recruit, options);
  const std::string process = random_process();
  std::ignore = offer_for(recruit, *channel, process, options);
  v1::Farewell farewell;
  farewell.set_process(process);
  const v1::Receipt receipt = patiently(recruit, options, [&] { return channel->leave(farewell); });
  if (receipt.has_refusal()) {
    raise_refusal(receipt.refusal(), "does not let this member go");
  }
}

}  // namespace winnow::member
