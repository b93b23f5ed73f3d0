// What a checkpoint has of its clients, as bytes: safetensors with what is no tensor in the
// metadata.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "winnow/federation/archive.h"
#include "winnow/federation/memory.h"
#include "winnow/model/safetensors.h"

namespace winnow {

// The metadata of a checkpoint's file is one JSON text under this key.
inline constexpr const char* kCheckpointKey = "winnow_checkpoint";

// What the server keeps of a client, by column (Archive).
struct ServerEntry {
  std::map<std::string, Json> values = {};
  std::map<std::string, at::Tensor> tensors = {};
};

// One client's part of a checkpoint. What is absent is not spoken of.
struct ClientRecord {
  std::optional<ClientMemory> memory = {};  // may be empty: it remembers nothing any more
  std::optional<ServerEntry> server = {};
};

// The entries of one client in all columns. A tensor without values is left out.
ServerEntry server_entry(const Archive& archive, std::int64_t client);

// Tensors that are equal are in the bytes once.
std::string encode_record(std::int64_t client, const ClientRecord& record);
// The bytes may be forged, and whether a memory fits its client is not looked at. Throws Error(kind
// data) or Error(kind run).
ClientRecord decode_record(std::int64_t client, std::string_view bytes, const std::string& source);

// The same of the memories of several clients.
std::string encode_memories(const std::map<std::int64_t, ClientMemory>& memories);
std::map<std::int64_t, ClientMemory> decode_memories(std::string_view bytes,
                                                     const std::string& source);

// The JSON text under kCheckpointKey, and any other text of the metadata.
Json metadata_of(const TensorFile& file);
const std::string& entry_of(const TensorFile& file, const char* key);

// The memories of a metadata's "clients" without their tensors, and a tensor named
// client/ID/WHAT for one of them.
std::map<std::int64_t, ClientMemory> take_clients(const CheckedJson& saved);
void take_tensor(const std::string& name, const at::Tensor& tensor,
                 std::map<std::int64_t, ClientMemory>& clients);

// A table of values as it is.
const Json& table(const CheckedJson& value);

}  // namespace winnow
