// A request to the page that `winnow watch` serves.
#include "target.h"
#include "winnow/report/page_server.h"

using namespace winnow;

namespace {

PageAnswer page(const std::string& path, const std::string& /*etag*/) {
  if (path == "/") {
    return {"text/html", "<p>page</p>", ""};
  }
  if (path == "/data.json") {
    return {"application/json", "{}", "0123456789abcdef"};
  }
  if (path == "/broken") {
    throw Error(ErrorKind::run, "events.jsonl is damaged");
  }
  return {};
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string answer =
      answer_request(std::string(reinterpret_cast<const char*>(data), size), 8780, page);
  fuzz::require(answer.starts_with("HTTP/1.1 "), "a status line");
  const std::size_t end = answer.find("\r\n\r\n");
  fuzz::require(end != std::string::npos, "an end of the headers");
  const std::string length =
      "\r\nContent-Length: " + std::to_string(answer.size() - end - 4) + "\r\n";
  fuzz::require(answer.substr(0, end + 2).find(length) != std::string::npos, "the right length");
  return 0;
}
