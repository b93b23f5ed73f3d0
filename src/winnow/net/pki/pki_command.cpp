// `winnow pki`: the certificates by which the members of a federation and its server know each
// other.
#include <fmt/format.h>

#include <filesystem>
#include <set>

#include "winnow/base/error.h"
#include "winnow/base/files.h"
#include "winnow/base/json.h"
#include "winnow/base/text.h"
#include "winnow/cli/console.h"
#include "winnow/net/pki/authority.h"
#include "winnow/net/pki/certificate.h"
#include "winnow/net/pki/commands.h"
#include "winnow/net/pki/identity.h"
#include "winnow/net/pki/openssl.h"

namespace winnow {
namespace {

namespace files = std::filesystem;

struct PkiFlags {
  std::string folder;              // init
  std::string title;               // init
  std::string name;                // request, revoke
  std::string request;             // sign
  std::string file;                // check
  std::string key;                 // check
  std::string authority;           // sign, issue, revoke, list, check
  std::string out;                 // request, sign, issue
  std::vector<std::string> names;  // issue client
  std::vector<std::string> hosts;  // issue server
  std::int64_t days = kCertificateDays;
  std::int64_t authority_days = kAuthorityDays;
  bool replace = false;
  bool json = false;

  Replace may_replace() const { return replace ? Replace::yes : Replace::no; }
};
using SharedFlags = std::shared_ptr<PkiFlags>;

void add_days(CLI::App& command, std::int64_t& days) {
  command.add_option("--days", days, "days until the certificate expires")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, kMostDays))
      ->capture_default_str();
}

void add_authority(CLI::App& command, PkiFlags& flags) {
  command
      .add_option("--authority", flags.authority,
                  "folder of the authority, made by 'winnow pki init'")
      ->type_name("DIR")
      ->required();
}

void add_replace(CLI::App& command, PkiFlags& flags) {
  command.add_flag("--replace", flags.replace,
                   "if the name already has a certificate: make a new one and revoke the old one");
}

void add_out_folder(CLI::App& command, PkiFlags& flags, const char* help) {
  command.add_option("-o,--out", flags.out, help)->type_name("DIR")->required();
}

files::path made_folder(const std::string& folder) {
  std::error_code failed;
  files::create_directories(folder, failed);
  if (failed) {
    throw Error(ErrorKind::run, fmt::format("cannot create {}: {}", folder, failed.message()));
  }
  return folder;
}

void refuse_existing(const files::path& path) {
  std::error_code ignored;
  if (files::exists(files::symlink_status(path, ignored))) {
    throw Error(ErrorKind::usage, fmt::format("{} already exists", path.string()),
                "choose another place, or move the file away");
  }
}

void write_credentials(const files::path& folder, const std::string& name,
                       const Credentials& credentials) {
  write_secret(folder / (name + ".key"), credentials.key);
  write_file_whole(folder / (name + ".pem"), credentials.certificate);
  write_file_whole(folder / "authority.pem", credentials.authority);
}

// Before anything is signed: what would be overwritten.
files::path room_for(const std::string& out, const std::string& name,
                     const std::string& authority_pem) {
  files::path folder = made_folder(out);
  refuse_existing(folder / (name + ".key"));
  refuse_existing(folder / (name + ".pem"));
  const files::path authority = folder / "authority.pem";
  if (files::exists(authority) && pki::read_pem_file(authority) != authority_pem) {
    throw Error(ErrorKind::usage,
                fmt::format("{} is that of another federation", authority.string()),
                "choose another folder");
  }
  return folder;
}

std::string until(const std::string& certificate_pem) {
  return pki::date_text(read_certificate(certificate_pem).expires);
}

// ---- the commands

void add_init(CLI::App& pki, const SharedFlags& flags) {
  CLI::App* command =
      pki.add_subcommand("init", "create the certificate authority of a new federation");
  command->add_option("DIR", flags->folder, "new folder for the authority")->required();
  command->add_option("--name", flags->title, "title of the federation, to show to people")
      ->type_name("TITLE")
      ->required();
  add_days(*command, flags->authority_days);
  command->footer(
      "Anyone who has the authority.key in that folder can add members: keep it where only the\n"
      "operator can read it, not on the server.\n"
      "Example:  winnow pki init authority --name \"Chest X-ray 2026\"");
  command->callback([flags] {
    const Authority authority =
        Authority::create(flags->folder, flags->title, flags->authority_days);
    fmt::print("authority of '{}' in {}\nfederation {}, until {}\n", authority.title(),
               flags->folder, authority.federation(), until(authority.certificate()));
  });
}

void add_request(CLI::App& pki, const SharedFlags& flags) {
  CLI::App* command =
      pki.add_subcommand("request", "as a member: create a key and request a certificate for it");
  command->add_option("NAME", flags->name, "the member's name in the federation")->required();
  add_out_folder(*command, *flags, "folder for NAME.key and NAME.csr");
  command->footer(
      "The key stays on this machine. Send only NAME.csr to the operator, and compare the digest\n"
      "of the key in another way, for example by telephone.\n"
      "Example:  winnow pki request hospital-a --out pki");
  command->callback([flags] {
    check_member_name(flags->name);
    const files::path folder = made_folder(flags->out);
    const files::path request = folder / (flags->name + ".csr");
    const files::path key = folder / (flags->name + ".key");
    refuse_existing(key);
    refuse_existing(request);
    const KeyAndRequest made = make_request(flags->name);
    write_secret(key, made.key);
    write_file_whole(request, made.request);
    fmt::print("request {} for the member {}\nkey {} with the digest {}\n", request.string(),
               flags->name, key.string(), read_request(made.request).key_digest);
  });
}

void add_sign(CLI::App& pki, const SharedFlags& flags) {
  CLI::App* command =
      pki.add_subcommand("sign", "as the operator: sign the certificate that a member requests");
  command->add_option("REQUEST", flags->request, "the member's request, NAME.csr")->required();
  add_authority(*command, *flags);
  command->add_option("-o,--out", flags->out, "file for the certificate")
      ->type_name("FILE")
      ->required();
  add_days(*command, flags->days);
  add_replace(*command, *flags);
  command->footer(
      "Send the certificate and the authority's authority.pem to the member.\n"
      "Example:  winnow pki sign hospital-a.csr --authority authority --out hospital-a.pem");
  command->callback([flags] {
    Authority authority = Authority::open(flags->authority);
    const std::string request = pki::read_pem_file(flags->request);
    const RequestedName who = read_request(request);
    if (!flags->replace) {
      refuse_existing(flags->out);
    }
    fmt::print("member {} of '{}'\nkey with the digest {}\n", who.name, authority.title(),
               who.key_digest);
    const std::string certificate = authority.sign(request, flags->days, flags->may_replace());
    write_file_whole(flags->out, certificate);
    fmt::print("certificate {}, until {}\n", flags->out, until(certificate));
  });
}

void add_issue_client(CLI::App& issue, const SharedFlags& flags) {
  CLI::App* command = issue.add_subcommand("client", "for one or more members");
  command->add_option("NAME", flags->names, "the members' names in the federation")->required();
  add_authority(*command, *flags);
  add_out_folder(*command, *flags, "folder for NAME.pem, NAME.key and authority.pem");
  add_days(*command, flags->days);
  add_replace(*command, *flags);
  command->footer(
      "The key must then be sent to the member. It is safer if the member runs 'winnow pki "
      "request'.\n"
      "Example:  winnow pki issue client hospital-a hospital-b --authority authority --out pki");
  command->callback([flags] {
    // What is wrong with any of the names is said before anything is signed.
    std::set<std::string> once;
    for (const std::string& name : flags->names) {
      check_member_name(name);
      if (!once.insert(name).second) {
        throw Error(ErrorKind::usage, fmt::format("{} is named twice", name));
      }
    }
    Authority authority = Authority::open(flags->authority);
    for (const std::string& name : flags->names) {
      if (!flags->replace) {
        authority.refuse_known(name);
      }
      room_for(flags->out, name, authority.certificate());
    }
    const files::path folder = flags->out;
    for (const std::string& name : flags->names) {
      const Credentials made = authority.issue_client(name, flags->days, flags->may_replace());
      write_credentials(folder, name, made);
      fmt::print("certificate and key of the member {} in {}, until {}\n", name, folder.string(),
                 until(made.certificate));
    }
  });
}

void add_issue_server(CLI::App& issue, const SharedFlags& flags) {
  CLI::App* command = issue.add_subcommand("server", "for the server");
  command
      ->add_option("HOST", flags->hosts,
                   "host names and addresses at which members reach the server")
      ->required();
  add_authority(*command, *flags);
  add_out_folder(*command, *flags, "folder for server.pem, server.key and authority.pem");
  add_days(*command, flags->days);
  command->footer(
      "Example:  winnow pki issue server fl.example.org 192.0.2.7 --authority authority --out pki");
  command->callback([flags] {
    Authority authority = Authority::open(flags->authority);
    const files::path folder = room_for(flags->out, "server", authority.certificate());
    const Credentials made = authority.issue_server(flags->hosts, flags->days);
    write_credentials(folder, "server", made);
    fmt::print("certificate and key of the server for {} in {}, until {}\n",
               join(flags->hosts, ", "), folder.string(), until(made.certificate));
  });
}

void add_issue(CLI::App& pki, const SharedFlags& flags) {
  CLI::App* issue =
      pki.add_subcommand("issue", "as the operator: create a key and its certificate in one step");
  issue->require_subcommand(1);
  add_issue_client(*issue, flags);
  add_issue_server(*issue, flags);
  issue->footer("Example:  winnow pki issue server localhost --authority authority --out pki");
}

void add_revoke(CLI::App& pki, const SharedFlags& flags) {
  CLI::App* command =
      pki.add_subcommand("revoke", "as the operator: stop accepting a member's certificate");
  command->add_option("NAME", flags->name, "the member's name")->required();
  add_authority(*command, *flags);
  command->footer(
      "The server reads revoked.txt at every call; if it has a copy of the file, copy it again.\n"
      "Example:  winnow pki revoke hospital-a --authority authority");
  command->callback([flags] {
    Authority authority = Authority::open(flags->authority);
    const bool now = authority.revoke(flags->name);
    fmt::print("the certificate of {} {} revoked, in {}\n", flags->name,
               now ? "is now" : "was already", authority.revoked_file().string());
  });
}

std::string issued_json(const std::vector<Issued>& all) {
  Json list = Json::array();
  for (const Issued& one : all) {
    list.push_back({{"name", one.name},
                    {"kind", one.server ? "server" : "client"},
                    {"expires", one.expires},
                    {"revoked", one.revoked},
                    {"fingerprint", one.fingerprint}});
  }
  return list.dump(2);
}

void add_list(CLI::App& pki, const SharedFlags& flags) {
  CLI::App* command = pki.add_subcommand("list", "list the certificates that were signed");
  add_authority(*command, *flags);
  command->add_flag("--json", flags->json, "print as JSON");
  command->footer("Example:  winnow pki list --authority authority");
  command->callback([flags] {
    const std::vector<Issued> all = Authority::open(flags->authority).issued();
    if (flags->json) {
      fmt::print("{}\n", issued_json(all));
      return;
    }
    std::vector<std::vector<std::string>> rows{{"name", "kind", "expires", "revoked"}};
    for (const Issued& one : all) {
      const bool expired = one.expires < pki::seconds_now();
      rows.push_back({one.name, one.server ? "server" : "client",
                      pki::date_text(one.expires) + (expired ? " (expired)" : ""),
                      one.revoked ? "yes" : "no"});
    }
    fmt::print("{}", columns(rows, terminal_width()));
  });
}

void print_facts(const pki::Facts& facts) {
  std::vector<std::vector<std::string>> rows{
      {"subject", facts.title.empty() ? "-" : printable(facts.title)},
      {"kind", pki::kind_text(facts.kind)},
      {"federation", facts.federation.empty() ? "-" : facts.federation}};
  if (!facts.name.empty()) {
    rows.push_back({"member", facts.name});
  }
  if (!facts.hosts.empty()) {
    rows.push_back({"hosts", join(facts.hosts, ", ")});
  }
  rows.push_back({"begins", pki::date_text(facts.begins)});
  rows.push_back({"expires", pki::date_text(facts.expires)});
  rows.push_back({"fingerprint", facts.fingerprint});
  fmt::print("{}", columns(rows, terminal_width()));
}

[[noreturn]] void does_not_hold(const std::string& sentence, const std::string& hint = "") {
  throw Error(ErrorKind::peer, sentence, hint);
}

void check_key_file(const std::string& file, const std::string& key_file, X509& certificate) {
  std::string text;
  try {
    text = pki::read_key_file(key_file);
  } catch (const Error& error) {
    does_not_hold(error.what(), error.hint());
  }
  const pki::Key key = pki::parse_key(text, {key_file, ErrorKind::peer});
  if (!pki::key_fits(certificate, *key)) {
    does_not_hold(fmt::format("the key {} does not belong to {}", key_file, file));
  }
  fmt::print("the key fits\n");
}

// The file authority.pem, or the folder that has it.
void check_chain(const std::string& file, files::path authority_file, X509& certificate) {
  if (files::is_directory(authority_file)) {
    authority_file /= "authority.pem";
  }
  const pki::Whose whose{authority_file.string(), ErrorKind::peer};
  const pki::Certificate authority =
      pki::parse_certificate(pki::read_pem_file(authority_file), whose);
  const pki::Facts facts = pki::facts_of(*authority, whose);
  if (facts.kind != pki::CertificateKind::authority) {
    does_not_hold(fmt::format("{} is not the certificate of an authority", whose.name));
  }
  if (const int fault = pki::chain_fault(certificate, *authority); fault != X509_V_OK) {
    does_not_hold(fmt::format("{} is not signed by the authority {}", file, whose.name),
                  X509_verify_cert_error_string(fault));
  }
  if (facts.expires < pki::seconds_now()) {
    does_not_hold(
        fmt::format("the authority {} expired on {}", whose.name, pki::date_text(facts.expires)));
  }
  fmt::print("signed by the authority of '{}'\n", printable(facts.title));
}

void add_check(CLI::App& pki, const SharedFlags& flags) {
  CLI::App* command =
      pki.add_subcommand("check", "show who a certificate belongs to and whether it is valid");
  command->add_option("FILE", flags->file, "a certificate in PEM form")->required();
  command->add_option("--key", flags->key, "also check that this is its key")->type_name("FILE");
  command
      ->add_option("--authority", flags->authority, "also check that this authority has signed it")
      ->type_name("FILE");
  command->footer(
      "Exit code 0 if valid, 6 if not, with the reason in one sentence.\n"
      "Example:  winnow pki check hospital-a.pem --key hospital-a.key --authority authority.pem");
  command->callback([flags] {
    const pki::Whose whose{flags->file, ErrorKind::peer};
    const pki::Certificate certificate =
        pki::parse_certificate(pki::read_pem_file(flags->file), whose);
    const pki::Facts facts = pki::facts_of(*certificate, whose);
    print_facts(facts);
    if (!flags->key.empty()) {
      check_key_file(flags->file, flags->key, *certificate);
    }
    if (!flags->authority.empty()) {
      check_chain(flags->file, flags->authority, *certificate);
    }
    if (facts.federation.empty()) {
      does_not_hold(fmt::format("{} is not of a federation of Winnow", flags->file));
    }
    if (facts.expires < pki::seconds_now()) {
      does_not_hold(fmt::format("{} expired on {}", flags->file, pki::date_text(facts.expires)),
                    "make a new request and have it signed, or set this machine's clock");
    }
    if (facts.begins > pki::seconds_now()) {
      does_not_hold(
          fmt::format("{} is not valid before {}", flags->file, pki::date_text(facts.begins)),
          "wait, or set this machine's clock");
    }
    fmt::print("it is valid\n");
  });
}

}  // namespace

void add_pki_command(CLI::App& app, Program& /*program*/) {
  const auto flags = std::make_shared<PkiFlags>();
  CLI::App* command =
      app.add_subcommand("pki", "create and check the certificates of a federation");
  command->require_subcommand(1);
  add_init(*command, flags);
  add_request(*command, flags);
  add_sign(*command, flags);
  add_issue(*command, flags);
  add_revoke(*command, flags);
  add_list(*command, flags);
  add_check(*command, flags);
  command->footer(
      "Every federation has its own authority, which signs the certificates of its members and of\n"
      "its server. Nobody without one can take part, and no member can pretend to be another.\n"
      "Example:  winnow pki init authority --name \"Chest X-ray 2026\"");
}

}  // namespace winnow
