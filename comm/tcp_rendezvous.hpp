// SPDX-License-Identifier: Apache-2.0
// Inner header of comm: how ranks without MPI find each other.
//
// Rank 0 listens at MASTER_ADDR:MASTER_PORT.  The others say hello there: rank, size, token, host,
// addresses.  When all have, rank 0 hands out the table of all; each rank connects to all lower
// ones; when rank 0 has heard that all have done so, it lets them go.  Whatever goes wrong is told
// to rank 0, and by it to all that are there.
#pragma once

#include "comm/launcher.hpp"
#include "comm/tcp_message.hpp"

#include <memory>
#include <vector>

namespace bora::tcp {

/// A rank, and the connection to it.
struct Peer {
  Socket socket;         ///< none to oneself
  std::string host;      ///< its name
  std::string identity;  ///< host_identity()
};

/// Meets the other ranks; by rank.  Returns on all ranks or throws on all that are there, within
/// the place's limit (the meeting) and as long again (connecting).  UsageError: ranks that are told
/// different sizes, the same rank twice, an unknown network.  Error: a rank that stays away, by its
/// number; nobody at the meeting point, by host and port; a port that is taken.
std::vector<Peer> meet(const LaunchPlace& place);

/// What a rank tells of itself.
struct Member {
  std::string host, identity;
  std::vector<Endpoint> ends;  ///< where it listens
  bool chosen = false;         ///< `ends` are the network that its user wants
};

/// The talks with rank 0: on rank 0 by rank (none with itself), elsewhere one.
using Controls = std::vector<std::unique_ptr<Talk>>;

/// After the meeting: connects all with all.  `nonce` keeps strangers out.
std::vector<Peer> connect_all(const LaunchPlace& place, const std::vector<Member>& members,
                              Socket listener, Controls& controls, const std::string& nonce);

/// Rank 0's part of meet().
std::vector<Peer> meet_as_host(const LaunchPlace& place);
/// After a fault rank 0 stays so long for ranks that come late, so that they hear of it as well.
inline constexpr double kLinger_s = 2;

/// This rank as the others may see it, and the socket where they find it.  `seen`: this side of the
/// connection to rank 0, if there is one.
Member describe_self(const LaunchPlace& place, Socket& listener, const Endpoint* seen);
/// A member in one line, and back.
std::string text_of(const Member& member);
Member member_of(const std::string& text);

/// Throws a fault that was told: the error that it began as.
[[noreturn]] void throw_fault(const std::string& text);
std::string fault_of(const std::exception& error);

}  // namespace bora::tcp
