// The only file of this room that knows gRPC.
#include "winnow/net/join/channel.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <iterator>
#include <mutex>
#include <utility>
#include <vector>

#include "winnow/base/error.h"
#include "winnow/net/v1/federation.grpc.pb.h"

namespace winnow::member {
namespace {

using Milliseconds = std::chrono::milliseconds;

constexpr int kMostReceived = 2 << 20;
constexpr Milliseconds kGlance{100};  // how often a call looks whether to stop
constexpr std::chrono::seconds kRest{60};

// What a failed call means.
std::exception_ptr failure_of(const grpc::Status& status) {
  const std::string said = status.error_message();
  switch (status.error_code()) {
    case grpc::StatusCode::PERMISSION_DENIED:
    case grpc::StatusCode::UNAUTHENTICATED:
      return std::make_exception_ptr(
          Error(ErrorKind::peer, fmt::format("the server refuses this member: {}", said)));
    case grpc::StatusCode::UNIMPLEMENTED:
      return std::make_exception_ptr(
          Error(ErrorKind::peer, "what answers there is not the server of a federation"));
    case grpc::StatusCode::INVALID_ARGUMENT:
      return std::make_exception_ptr(
          Error(ErrorKind::peer, fmt::format("the server cannot read this member: {}", said)));
    case grpc::StatusCode::DEADLINE_EXCEEDED:
      return std::make_exception_ptr(Unreachable("the server did not answer in time"));
    default:
      return std::make_exception_ptr(Unreachable(said));
  }
}

// One call: everything that has to live until it is done.
template <typename Request, typename Response>
struct Call {
  Call(Request asked, Milliseconds limit) : request(std::move(asked)) {
    context.set_deadline(std::chrono::system_clock::now() + limit);
  }

  grpc::ClientContext context;
  Request request;
  Response response;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<grpc::Status> status;
};

// A connection. Calls that began on it keep it.
struct Connection {
  std::shared_ptr<grpc::Channel> channel;
  std::unique_ptr<v1::Federation::Stub> stub;
};

std::shared_ptr<Connection> new_connection(const std::string& target,
                                           const Credentials& credentials) {
  grpc::SslCredentialsOptions tls;
  tls.pem_root_certs = credentials.authority;
  tls.pem_private_key = credentials.key;
  tls.pem_cert_chain = credentials.certificate;
  grpc::ChannelArguments arguments;
  // Members of one process have different certificates, so they may not share a connection.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_RETRIES, 0);  // what may be repeated is decided here
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetInt(GRPC_ARG_INITIAL_RECONNECT_BACKOFF_MS, 500);
  arguments.SetInt(GRPC_ARG_MAX_RECONNECT_BACKOFF_MS, 5000);
  arguments.SetCompressionAlgorithm(GRPC_COMPRESS_NONE);
  arguments.SetInt(GRPC_COMPRESSION_CHANNEL_ENABLED_ALGORITHMS_BITSET, 1);
  arguments.SetMaxReceiveMessageSize(kMostReceived);
  arguments.SetMaxSendMessageSize(-1);
  auto connection = std::make_shared<Connection>();
  connection->channel = grpc::CreateCustomChannel(target, grpc::SslCredentials(tls), arguments);
  connection->stub = v1::Federation::NewStub(connection->channel);
  return connection;
}

// Where connections go that are no longer used. gRPC 1.51 can abort (ref_counted.h) where a channel
// is destroyed in the very moment in which its connection fails, as when a server turns a member
// away or ends. So a connection rests here for longer than an attempt to connect takes, and goes at
// a moment at which it is not trying. What is left when the process ends is left to the system.
class RestingPlace {
 public:
  // The only one, which is never destroyed.
  static RestingPlace& here() {
    static RestingPlace& place = *std::make_unique<RestingPlace>().release();
    return place;
  }

  void take(std::shared_ptr<Connection> connection) {
    const std::lock_guard lock(mutex_);
    resting_.push_back({std::move(connection), std::chrono::steady_clock::now()});
  }

  // Lets those go that have rested. Not to be called on a thread of gRPC.
  void clear() {
    std::vector<Resting> rested;
    {
      const std::lock_guard lock(mutex_);
      const auto begin = std::partition(resting_.begin(), resting_.end(),
                                        [](const Resting& one) { return !one.may_go(); });
      rested.assign(std::make_move_iterator(begin), std::make_move_iterator(resting_.end()));
      resting_.erase(begin, resting_.end());
    }
  }

 private:
  struct Resting {
    std::shared_ptr<Connection> connection;
    std::chrono::steady_clock::time_point since;

    bool may_go() const {
      return connection.use_count() == 1 && std::chrono::steady_clock::now() - since > kRest &&
             connection->channel->GetState(/*try_to_connect=*/false) != GRPC_CHANNEL_CONNECTING;
    }
  };

  std::mutex mutex_;
  std::vector<Resting> resting_;
};

class GrpcChannel final : public Channel {
 public:
  GrpcChannel(const std::string& host, std::uint16_t port, Credentials credentials,
              const std::atomic<bool>* stop, const CallLimits& limits)
      : target_(host.find(':') != std::string::npos  // IPv6
                    ? fmt::format("ipv6:[{}]:{}", host, port)
                    : fmt::format("dns:///{}:{}", host, port)),
        credentials_(std::move(credentials)),
        stop_(stop),
        limits_(limits) {}
  ~GrpcChannel() override {
    if (connection_ != nullptr) {
      RestingPlace::here().take(std::move(connection_));
    }
  }
  GrpcChannel(const GrpcChannel&) = delete;
  GrpcChannel& operator=(const GrpcChannel&) = delete;

  v1::Welcome join(const v1::Hello& hello) override {
    return call<v1::Welcome>(hello, limits_.join, [](auto& stub, auto* call, auto done) {
      stub.async()->Join(&call->context, &call->request, &call->response, std::move(done));
    });
  }
  v1::Piece fetch(const v1::PieceRequest& request) override {
    return call<v1::Piece>(request, limits_.piece, [](auto& stub, auto* call, auto done) {
      stub.async()->Fetch(&call->context, &call->request, &call->response, std::move(done));
    });
  }
  v1::Receipt open(const v1::Opening& opening) override {
    return call<v1::Receipt>(opening, limits_.piece, [](auto& stub, auto* call, auto done) {
      stub.async()->Open(&call->context, &call->request, &call->response, std::move(done));
    });
  }
  v1::Receipt put(const v1::Portion& portion) override {
    return call<v1::Receipt>(portion, limits_.piece, [](auto& stub, auto* call, auto done) {
      stub.async()->Put(&call->context, &call->request, &call->response, std::move(done));
    });
  }
  v1::Receipt seal(const v1::Sealing& sealing) override {
    return call<v1::Receipt>(sealing, limits_.piece, [](auto& stub, auto* call, auto done) {
      stub.async()->Seal(&call->context, &call->request, &call->response, std::move(done));
    });
  }
  v1::Receipt leave(const v1::Farewell& farewell) override {
    return call<v1::Receipt>(farewell, limits_.join, [](auto& stub, auto* call, auto done) {
      stub.async()->Leave(&call->context, &call->request, &call->response, std::move(done));
    });
  }

  void next(const v1::Report& report, Done done) override {
    auto call = std::make_shared<Call<v1::Report, v1::Assignment>>(report, limits_.next);
    const std::shared_ptr<Connection> connection = current();
    {
      const std::lock_guard lock(mutex_);
      waiting_ = call;
    }
    connection->stub->async()->Next(
        &call->context, &call->request, &call->response,
        [this, call, connection, done = std::move(done)](const grpc::Status& status) {
          {
            const std::lock_guard lock(mutex_);
            waiting_.reset();
          }
          Awaited awaited;
          if (status.ok()) {
            awaited.assignment = std::move(call->response);
          } else {
            give_up_if_late(connection, status);
            awaited.failure = failure_of(status);
          }
          done(std::move(awaited));
        });
  }

  void cancel() override {
    const std::lock_guard lock(mutex_);
    if (waiting_ != nullptr) {
      waiting_->context.TryCancel();
    }
  }

 private:
  std::shared_ptr<Connection> current() {
    const std::lock_guard lock(mutex_);
    if (connection_ == nullptr) {
      RestingPlace::here().clear();
      connection_ = new_connection(target_, credentials_);
    }
    return connection_;
  }

  // The next call has a new one.
  void give_up_if_late(const std::shared_ptr<Connection>& connection, const grpc::Status& status) {
    const std::lock_guard lock(mutex_);
    if (status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED && connection == connection_) {
      RestingPlace::here().take(std::move(connection_));
      connection_ = nullptr;
    }
  }

  // Starts a call and waits for it, with an eye on whether to stop: the server is then out of
  // reach.
  template <typename Response, typename Request, typename Start>
  Response call(const Request& request, Milliseconds limit, const Start& start) {
    const std::shared_ptr<Connection> connection = current();
    auto one = std::make_shared<Call<Request, Response>>(request, limit);
    start(*connection->stub, one.get(), [one](grpc::Status status) {
      {
        const std::lock_guard lock(one->mutex);
        one->status = std::move(status);
      }
      one->changed.notify_all();
    });
    std::unique_lock lock(one->mutex);
    while (!one->changed.wait_for(lock, kGlance, [&] { return one->status.has_value(); })) {
      if (stop_ != nullptr && stop_->load()) {
        one->context.TryCancel();
      }
    }
    if (one->status->ok()) {
      return std::move(one->response);
    }
    give_up_if_late(connection, *one->status);
    std::rethrow_exception(failure_of(*one->status));
  }

  std::string target_;
  Credentials credentials_;
  const std::atomic<bool>* stop_;
  CallLimits limits_;
  std::mutex mutex_;
  std::shared_ptr<Connection> connection_;  // null: one is to be made
  std::shared_ptr<Call<v1::Report, v1::Assignment>> waiting_;
};

}  // namespace

std::unique_ptr<Channel> open_channel(const std::string& host, std::uint16_t port,
                                      const Credentials& credentials, const std::atomic<bool>* stop,
                                      const CallLimits& limits) {
  return std::make_unique<GrpcChannel>(host, port, credentials, stop, limits);
}

}  // namespace winnow::member
