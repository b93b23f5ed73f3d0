// Places where a test lets the server die, so that it can be seen to survive there.
#pragma once

#include <functional>
#include <string_view>

namespace winnow::net {

// The seven moments of a round at which a death leaves something different behind.
inline constexpr std::string_view kBeforeOrder = "before_order";
inline constexpr std::string_view kAfterOrder = "after_order";
inline constexpr std::string_view kAfterPiece = "after_piece";
inline constexpr std::string_view kAfterRename = "after_rename";
inline constexpr std::string_view kAfterVerdict = "after_verdict";
inline constexpr std::string_view kAfterFold = "after_fold";
inline constexpr std::string_view kAfterCheckpoint = "after_checkpoint";

// Called at each of them.
using FailPoint = std::function<void(std::string_view name)>;

// Ends the process at the point that WINNOW_FAILPOINT names, as a kill would: "after_rename", or
// "after_rename:3" for the third time it is reached. Does nothing where the variable is not set.
// Throws Error(kind usage) for a name that is none.
FailPoint fail_point_of_environment();

}  // namespace winnow::net
