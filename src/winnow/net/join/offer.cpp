#include "winnow/net/join/offer.h"

#include <fmt/format.h>
#include <sys/random.h>

#include <algorithm>

#include "winnow/base/build_info.h"
#include "winnow/base/error.h"
#include "winnow/base/sha256.h"
#include "winnow/net/join/hex.h"
#include "winnow/net/join/refusal.h"

namespace winnow::member {
namespace {

v1::Hello first_words(const std::string& process) {
  v1::Hello hello;
  hello.set_protocol_low(kSpoken);
  hello.set_protocol_high(kSpoken);
  hello.set_version(build_info::kVersion);
  hello.set_numerics(kNumerics);
  hello.set_process(process);
  return hello;
}

}  // namespace

std::string random_process() {
  std::string bytes(16, '\0');
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size())) {
    throw Error(ErrorKind::run, "the system provides no random numbers");
  }
  return bytes;
}

Offer ask_offer(Channel& channel, const std::string& process) {
  const v1::Welcome welcome = channel.join(first_words(process));
  if (welcome.has_refusal()) {
    raise_refusal(welcome.refusal(), "refuses this member");
  }
  if (welcome.protocol() != kSpoken) {
    refuse_server(fmt::format("speaks protocol {}, this program {}", welcome.protocol(), kSpoken));
  }
  Offer offer;
  offer.text = welcome.charter();
  if (offer.text.size() > kLongestCharter) {
    refuse_server(fmt::format("sends a charter of {} bytes", offer.text.size()));
  }
  offer.hash = sha256_hex(offer.text);
  if (bytes_of_hex(offer.hash) != welcome.charter_hash()) {
    refuse_server("sends a charter that does not have the hash it announces");
  }
  offer.charter = read_charter(offer.text);
  if (offer.charter.numerics != kNumerics) {
    throw Error(ErrorKind::peer,
                fmt::format("the server computes by rules {}, this program by rules {}",
                            offer.charter.numerics, kNumerics),
                "use the version of Winnow that the server has");
  }
  offer.client = welcome.client();
  if (offer.client >= offer.charter.members) {
    refuse_server(
        fmt::format("calls this member client {} of {}", offer.client, offer.charter.members));
  }
  return offer;
}

std::int64_t accept_offer(Channel& channel, const Offer& offer, const std::string& process) {
  v1::Hello hello = first_words(process);
  hello.set_charter(bytes_of_hex(offer.hash));
  const v1::Welcome welcome = channel.join(hello);
  if (welcome.has_refusal()) {
    raise_refusal(welcome.refusal(), "refuses this member");
  }
  if (welcome.charter_hash() != hello.charter()) {
    throw other_charter();
  }
  if (welcome.client() >= offer.charter.members) {
    refuse_server(
        fmt::format("calls this member client {} of {}", welcome.client(), offer.charter.members));
  }
  return welcome.client();
}

std::string fetch_public_images(Channel& channel, const Charter& charter) {
  if (charter.public_images == 0) {
    return {};
  }
  const Json& data = charter.data;
  const std::int64_t bytes = charter.public_images * data.at("channels").get<std::int64_t>() *
                             data.at("height").get<std::int64_t>() *
                             data.at("width").get<std::int64_t>();
  std::string images = fetch_all(channel, bytes_of_hex(charter.public_digest),
                                 static_cast<std::uint64_t>(bytes), "the public images");
  if (sha256_hex(images) != charter.public_digest) {
    refuse_server("sends other public images than its charter names");
  }
  return images;
}

std::string fetch_all(Channel& channel, const std::string& digest, std::uint64_t bytes,
                      const std::string& what) {
  std::string all;
  all.reserve(bytes);
  v1::PieceRequest request;
  request.set_digest(digest);
  for (std::uint64_t number = 0; all.size() < bytes; ++number) {
    request.set_number(number);
    const v1::Piece piece = channel.fetch(request);
    if (piece.has_refusal()) {
      raise_refusal(piece.refusal(), fmt::format("does not give {}", what));
    }
    const std::uint64_t expected = std::min<std::uint64_t>(kPiece, bytes - all.size());
    if (piece.data().size() != expected) {
      refuse_server(fmt::format("sends piece {} of {} with {} bytes, expected {}", number, what,
                                piece.data().size(), expected));
    }
    all += piece.data();
  }
  return all;
}

}  // namespace winnow::member
