// The only file of this room that knows gRPC.
#include "winnow/net/serve/service.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/resource_quota.h>

#include <chrono>
#include <condition_variable>
#include <ctime>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/net/pki/identity.h"
#include "winnow/net/v1/federation.grpc.pb.h"

namespace winnow::net {
namespace {

constexpr int kMostReceivedByServer = 2 << 20;
constexpr int kHandshakeMilliseconds = 10'000;
constexpr int kMostStreams = 8;
constexpr int kMostMetadata = 8 << 10;
constexpr int kKeepaliveMilliseconds = 60'000;
constexpr int kKeepaliveTimeout = 20'000;
constexpr std::size_t kQuotaBytes = std::size_t{512} << 20;
constexpr std::size_t kWorkers = 4;
constexpr std::size_t kMostWaitingWork = 4096;
constexpr std::chrono::seconds kLongestShutdown{2};

// Threads of our own: what reads and writes files must not hold up those of gRPC.
class Workers {
 public:
  Workers() {
    for (std::size_t i = 0; i < kWorkers; ++i) {
      threads_.emplace_back([this] { run(); });
    }
  }
  ~Workers() {
    {
      const std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) {
      thread.join();
    }
  }
  Workers(const Workers&) = delete;
  Workers& operator=(const Workers&) = delete;

  // False where too much waits already.
  bool add(std::function<void()> work) {
    {
      const std::lock_guard lock(mutex_);
      if (stop_ || work_.size() >= kMostWaitingWork) {
        return false;
      }
      work_.push_back(std::move(work));
    }
    changed_.notify_one();
    return true;
  }

 private:
  void run() {
    for (;;) {
      std::function<void()> work;
      {
        std::unique_lock lock(mutex_);
        changed_.wait(lock, [this] { return stop_ || !work_.empty(); });
        if (work_.empty()) {
          return;  // all that was taken on is done
        }
        work = std::move(work_.front());
        work_.pop_front();
      }
      work();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

struct Caller {
  Identity identity;
  std::int64_t expires = 0;
};

Caller caller_of(const grpc::CallbackServerContext& context) {
  const auto shown = context.auth_context()->FindPropertyValues("x509_pem_cert");
  if (shown.size() != 1) {
    throw Error(ErrorKind::peer, "no certificate was shown");
  }
  const std::string pem(shown.front().data(), shown.front().size());
  Caller caller{identity_of(pem), read_certificate(pem).expires};
  // TLS looks at it when the connection is made, and that may be long ago.
  if (caller.expires < std::time(nullptr)) {
    throw Error(ErrorKind::peer, "the certificate has expired");
  }
  return caller;
}

class FederationService final : public v1::Federation::CallbackService {
 public:
  FederationService(Desk& desk, Workers& workers) : desk_(desk), workers_(workers) {}

  grpc::ServerUnaryReactor* Join(grpc::CallbackServerContext* context, const v1::Hello* request,
                                 v1::Welcome* response) override {
    return work(context, [this, request, response](const Caller& caller) {
      *response = desk_.join(caller.identity, *request, caller.expires);
    });
  }
  grpc::ServerUnaryReactor* Next(grpc::CallbackServerContext* context, const v1::Report* request,
                                 v1::Assignment* response) override {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    return start(context, reactor, [this, request, response, reactor](const Caller& caller) {
      desk_.next(caller.identity, *request, [response, reactor](v1::Assignment assignment) {
        *response = std::move(assignment);
        reactor->Finish(grpc::Status::OK);
      });
    });
  }
  grpc::ServerUnaryReactor* Fetch(grpc::CallbackServerContext* context,
                                  const v1::PieceRequest* request, v1::Piece* response) override {
    return work(context, [this, request, response](const Caller& caller) {
      *response = desk_.fetch(caller.identity, *request);
    });
  }
  grpc::ServerUnaryReactor* Open(grpc::CallbackServerContext* context, const v1::Opening* request,
                                 v1::Receipt* response) override {
    return work(context, [this, request, response](const Caller& caller) {
      *response = desk_.open(caller.identity, *request);
    });
  }
  grpc::ServerUnaryReactor* Put(grpc::CallbackServerContext* context, const v1::Portion* request,
                                v1::Receipt* response) override {
    return work(context, [this, request, response](const Caller& caller) {
      *response = desk_.put(caller.identity, *request);
    });
  }
  grpc::ServerUnaryReactor* Seal(grpc::CallbackServerContext* context, const v1::Sealing* request,
                                 v1::Receipt* response) override {
    return work(context, [this, request, response](const Caller& caller) {
      *response = desk_.seal(caller.identity, *request);
    });
  }
  grpc::ServerUnaryReactor* Leave(grpc::CallbackServerContext* context, const v1::Farewell* request,
                                  v1::Receipt* response) override {
    return work(context, [this, request, response](const Caller& caller) {
      *response = desk_.leave(caller.identity, *request);
    });
  }

 private:
  // A call that is answered when `body` returns.
  template <typename Body>
  grpc::ServerUnaryReactor* work(grpc::CallbackServerContext* context, Body body) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    return start(context, reactor, [reactor, body = std::move(body)](const Caller& caller) {
      body(caller);
      reactor->Finish(grpc::Status::OK);
    });
  }

  // A call that `body` sees to it is answered, unless it throws.
  template <typename Body>
  grpc::ServerUnaryReactor* start(grpc::CallbackServerContext* context,
                                  grpc::ServerUnaryReactor* reactor, Body body) {
    Caller caller;
    try {
      caller = caller_of(*context);
    } catch (const Error& error) {
      reactor->Finish({grpc::StatusCode::UNAUTHENTICATED, error.what()});
      return reactor;
    }
    const bool taken = workers_.add([reactor, caller, body = std::move(body)] {
      try {
        body(caller);
      } catch (const std::exception&) {
        reactor->Finish({grpc::StatusCode::INTERNAL, "the server has failed"});
      }
    });
    if (!taken) {
      reactor->Finish({grpc::StatusCode::UNAVAILABLE, "the server has too much to do"});
    }
    return reactor;
  }

  Desk& desk_;
  Workers& workers_;
};

}  // namespace

struct Service::Parts {
  explicit Parts(Desk& its_desk) : desk(its_desk), service(its_desk, workers) {}

  Desk& desk;
  Workers workers;
  FederationService service;
  std::unique_ptr<grpc::Server> server;
  int port = 0;
};

Service::Service(Desk& desk, const std::string& host, std::uint16_t port,
                 const Credentials& credentials)
    : parts_(std::make_unique<Parts>(desk)) {
  grpc::SslServerCredentialsOptions tls(GRPC_SSL_REQUEST_AND_REQUIRE_CLIENT_CERTIFICATE_AND_VERIFY);
  tls.pem_root_certs = credentials.authority;
  tls.pem_key_cert_pairs.push_back({credentials.key, credentials.certificate});
  const std::string address = fmt::format(
      "{}:{}", host.find(':') == std::string::npos ? host : fmt::format("[{}]", host), port);
  grpc::ServerBuilder builder;
  builder.AddListeningPort(address, grpc::SslServerCredentials(tls), &parts_->port);
  builder.RegisterService(&parts_->service);
  builder.SetMaxReceiveMessageSize(kMostReceivedByServer);
  builder.SetDefaultCompressionAlgorithm(GRPC_COMPRESS_NONE);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_DEFLATE, false);
  builder.SetCompressionAlgorithmSupportStatus(GRPC_COMPRESS_GZIP, false);
  grpc::ResourceQuota quota("winnow serve");
  quota.Resize(kQuotaBytes);
  builder.SetResourceQuota(quota);
  for (const auto& [name, value] :
       {std::pair{GRPC_ARG_SERVER_HANDSHAKE_TIMEOUT_MS, kHandshakeMilliseconds},
        {GRPC_ARG_MAX_CONCURRENT_STREAMS, kMostStreams},
        {GRPC_ARG_MAX_METADATA_SIZE, kMostMetadata},
        {GRPC_ARG_KEEPALIVE_TIME_MS, kKeepaliveMilliseconds},
        {GRPC_ARG_KEEPALIVE_TIMEOUT_MS, kKeepaliveTimeout},
        {GRPC_ARG_KEEPALIVE_PERMIT_WITHOUT_CALLS, 1},
        {GRPC_ARG_ALLOW_REUSEPORT, 0}}) {
    builder.AddChannelArgument(name, value);
  }
  parts_->server = builder.BuildAndStart();
  if (parts_->server == nullptr || parts_->port == 0) {
    throw Error(ErrorKind::run, fmt::format("cannot serve on {}", address),
                "is the port taken, or the address not of this machine? Set serve.host and "
                "serve.port, or use --port");
  }
}

Service::~Service() {
  if (parts_->server != nullptr) {
    parts_->desk.shut();
    parts_->server->Shutdown(std::chrono::system_clock::now() + kLongestShutdown);
    parts_->server->Wait();
  }
}

std::uint16_t Service::port() const {
  return static_cast<std::uint16_t>(parts_->port);
}

}  // namespace winnow::net
