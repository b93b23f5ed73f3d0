// The only file of this room that knows gRPC.
#include "winnow/net/join/channel.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <utility>

#include "winnow/base/error.h"
#include "winnow/net/v1/federation.grpc.pb.h"

namespace winnow::member {
namespace {

using Seconds = std::chrono::seconds;

constexpr Seconds kJoinDeadline{10};
constexpr Seconds kNextDeadline{40};
constexpr Seconds kPieceDeadline{60};
constexpr int kMostReceived = 2 << 20;
constexpr std::chrono::milliseconds kGlance{100};  // how often a call looks whether to stop

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
    case grpc::StatusCode::RESOURCE_EXHAUSTED:
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
  Call(Request asked, Seconds limit) : request(std::move(asked)) {
    context.set_deadline(std::chrono::system_clock::now() + limit);
  }

  grpc::ClientContext context;
  Request request;
  Response response;
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<grpc::Status> status;
};

class GrpcChannel final : public Channel {
 public:
  GrpcChannel(const std::string& host, std::uint16_t port, const Credentials& credentials,
              const std::atomic<bool>* stop)
      : stop_(stop) {
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
    const bool numeric = host.find(':') != std::string::npos;  // IPv6
    channel_ = grpc::CreateCustomChannel(
        numeric ? fmt::format("ipv6:[{}]:{}", host, port) : fmt::format("dns:///{}:{}", host, port),
        grpc::SslCredentials(tls), arguments);
    stub_ = v1::Federation::NewStub(channel_);
  }

  v1::Welcome join(const v1::Hello& hello) override {
    return call<v1::Welcome>(hello, kJoinDeadline, [this](auto* call, auto done) {
      stub_->async()->Join(&call->context, &call->request, &call->response, std::move(done));
    });
  }
  v1::Piece fetch(const v1::PieceRequest& request) override {
    return call<v1::Piece>(request, kPieceDeadline, [this](auto* call, auto done) {
      stub_->async()->Fetch(&call->context, &call->request, &call->response, std::move(done));
    });
  }
  v1::Receipt open(const v1::Opening& opening) override {
    return call<v1::Receipt>(opening, kPieceDeadline, [this](auto* call, auto done) {
      stub_->async()->Open(&call->context, &call->request, &call->response, std::move(done));
    });
  }
  v1::Receipt put(const v1::Portion& portion) override {
    return call<v1::Receipt>(portion, kPieceDeadline, [this](auto* call, auto done) {
      stub_->async()->Put(&call->context, &call->request, &call->response, std::move(done));
    });
  }
  v1::Receipt seal(const v1::Sealing& sealing) override {
    return call<v1::Receipt>(sealing, kPieceDeadline, [this](auto* call, auto done) {
      stub_->async()->Seal(&call->context, &call->request, &call->response, std::move(done));
    });
  }
  v1::Receipt leave(const v1::Farewell& farewell) override {
    return call<v1::Receipt>(farewell, kJoinDeadline, [this](auto* call, auto done) {
      stub_->async()->Leave(&call->context, &call->request, &call->response, std::move(done));
    });
  }

  void next(const v1::Report& report, Done done) override {
    auto call = std::make_shared<Call<v1::Report, v1::Assignment>>(report, kNextDeadline);
    {
      const std::lock_guard lock(mutex_);
      waiting_ = call;
    }
    stub_->async()->Next(&call->context, &call->request, &call->response,
                         [this, call, done = std::move(done)](const grpc::Status& status) {
                           {
                             const std::lock_guard lock(mutex_);
                             waiting_.reset();
                           }
                           Awaited awaited;
                           if (status.ok()) {
                             awaited.assignment = std::move(call->response);
                           } else {
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
  // Starts a call and waits for it, with an eye on whether to stop: the server is then out of
  // reach.
  template <typename Response, typename Request, typename Start>
  Response call(const Request& request, Seconds limit, const Start& start) {
    auto one = std::make_shared<Call<Request, Response>>(request, limit);
    start(one.get(), [one](grpc::Status status) {
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
    std::rethrow_exception(failure_of(*one->status));
  }

  const std::atomic<bool>* stop_;
  std::shared_ptr<grpc::Channel> channel_;
  std::unique_ptr<v1::Federation::Stub> stub_;
  std::mutex mutex_;
  std::shared_ptr<Call<v1::Report, v1::Assignment>> waiting_;
};

}  // namespace

std::unique_ptr<Channel> open_channel(const std::string& host, std::uint16_t port,
                                      const Credentials& credentials,
                                      const std::atomic<bool>* stop) {
  return std::make_unique<GrpcChannel>(host, port, credentials, stop);
}

}  // namespace winnow::member
