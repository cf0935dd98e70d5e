// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp_rendezvous.hpp"

#include "core/error.hpp"
#include "core/host.hpp"
#include "core/log.hpp"

#include <sys/resource.h>

#include <algorithm>
#include <thread>

namespace bora::tcp {
namespace {

// One socket a rank is needed, on rank 0 two, and a program has other files.  The system's usual
// limit is 1024, and may be raised.
void allow_sockets(size_t n_ranks) {
  rlimit limit{};
  const rlim_t wanted = 2 * n_ranks + 256;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return;
  limit.rlim_cur = std::min<rlim_t>(wanted, limit.rlim_max);
  if (::setrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur < wanted)
    log_warn("this process may open ", limit.rlim_cur, " files and sockets; ", n_ranks,
             " ranks may want ", wanted, " (ulimit -n)");
}

Socket connect_to_master(const LaunchPlace& place) {
  const auto deadline = after(place.limit_s);
  std::string why;
  for (auto pause = std::chrono::milliseconds(20);;
       pause = std::min(2 * pause, decltype(pause)(500))) {
    try {
      const std::vector<Endpoint> ends = resolve(place.master_host, place.master_port);
      if (Socket socket = connect_to(ends, deadline, nullptr, &why)) return socket;
    } catch (const Error& e) {
      why = e.what();
    }
    BORA_CHECK(milliseconds_until(deadline) > 0, "rank ", place.rank, " of ", place.size,
               " on host ", host_name(), ": no connection to rank 0 at ", place.master_host, ":",
               place.master_port, " (MASTER_ADDR:MASTER_PORT) within ", place.limit_s,
               " s (BORA_START_TIMEOUT_S): ", why,
               ". Is rank 0 running, and is that its host and port?");
    std::this_thread::sleep_for(
        std::min<Clock::duration>(pause, std::chrono::milliseconds(milliseconds_until(deadline))));
  }
}

std::vector<Peer> meet_as_guest(const LaunchPlace& place) {
  own_addresses(place.interface);  // whether it is there, before anything is said
  Controls controls;
  controls.push_back(std::make_unique<Talk>(connect_to_master(place)));
  Talk& control = *controls.front();
  const Endpoint seen = local_end(control.fd());
  Socket listener;
  const Member me = describe_self(place, listener, &seen);
  const std::string where = detail::join("rank 0 at ", place.master_host, ":", place.master_port);
  std::string why = "it has closed the connection";
  // Rank 0 knows best who is missing, so it may speak first.
  const auto deadline = after(place.limit_s + kLinger_s + 1);
  const bool sent = control.send(
      Kind::hello, detail::join(place.rank, '\n', place.size, '\n', place.token, '\n', text_of(me)),
      deadline, &why);
  const Talk::State state = control.wait(deadline);
  if (state == Talk::State::more)
    BORA_FAIL("the start: time is over on rank ", place.rank, ": ", where, " has been silent for ",
              place.limit_s, " s (BORA_START_TIMEOUT_S)");
  BORA_CHECK(state != Talk::State::closed, "rank ", place.rank, " was not let in by ", where, ": ",
             sent ? "it has closed the connection" : why,
             ". It is not a Bora, or it has failed (see its message)");
  BORA_CHECK(state == Talk::State::whole, "rank ", place.rank, ": ", where,
             " is not a Bora of this version; choose another MASTER_PORT");
  const Message answer = control.take();
  if (answer.kind == Kind::fault) throw_fault(answer.text);
  const std::vector<std::string> fields = split_fields(answer.text, '\n');
  BORA_CHECK(answer.kind == Kind::table && fields.size() == static_cast<size_t>(place.size) + 1,
             "rank ", place.rank, ": ", where, " gives a table of ", fields.size() - 1,
             " ranks, not of ", place.size);
  std::vector<Member> members;
  for (size_t r = 1; r < fields.size(); ++r) members.push_back(member_of(fields[r]));
  if (!members[0].chosen) {
    // The address by which rank 0 was reached is the one that surely works.
    const int port = members[0].ends.front().port();
    members[0].ends.insert(members[0].ends.begin(), remote_end(control.fd()).with_port(port));
  }
  try {
    return connect_all(place, members, std::move(listener), controls, fields[0]);
  } catch (const Error& e) {
    control.send_fault(fault_of(e));
    throw;
  }
}

}  // namespace

std::string text_of(const Member& m) {
  std::string text = detail::join(m.host, '\t', m.identity, '\t', m.chosen ? 1 : 0, '\t');
  for (const Endpoint& e : m.ends) text += e.text() + ' ';
  return text;
}

Member member_of(const std::string& text) {
  const std::vector<std::string> fields = split_fields(text, '\t');
  BORA_CHECK(fields.size() == 4, "tcp: a rank describes itself as '", text, "'");
  Member m{fields[0], fields[1], {}, fields[2] == "1"};
  for (const std::string& end : split_fields(fields[3], ' '))
    if (!end.empty()) m.ends.push_back(parse_endpoint(end));
  BORA_CHECK(!m.ends.empty(), "tcp: a rank tells no address: '", text, "'");
  return m;
}

Member describe_self(const LaunchPlace& place, Socket& listener, const Endpoint* seen) {
  Member me{host_name(), host_identity(), {}, !place.interface.empty()};
  std::vector<Endpoint> own = own_addresses(place.interface);
  if (me.chosen) {
    listener = listen_at(own.front());
    own.resize(1);
  } else {
    listener = listen_anywhere(0);
    if (seen != nullptr) own.insert(own.begin(), *seen);
    own.push_back(parse_endpoint("127.0.0.1:0"));
  }
  const int port = local_end(listener.fd()).port();
  for (const Endpoint& e : own) me.ends.push_back(e.with_port(port));
  return me;
}

void throw_fault(const std::string& text) {
  const std::string message = text.substr(std::min<size_t>(1, text.size()));
  if (text.starts_with('u')) throw UsageError(message);
  throw Error(message);
}

std::string fault_of(const std::exception& error) {
  const bool usage = dynamic_cast<const UsageError*>(&error) != nullptr;
  return (usage ? "u" : "e") + std::string(error.what());
}

std::vector<Peer> meet(const LaunchPlace& place) {
  BORA_CHECK(place.size > 0 && place.rank >= 0 && place.rank < place.size, "tcp: rank ", place.rank,
             " of ", place.size);
  if (place.size == 1) {
    std::vector<Peer> alone;
    alone.push_back({Socket(), host_name(), host_identity()});
    return alone;
  }
  allow_sockets(static_cast<size_t>(place.size));
  return place.rank == 0 ? meet_as_host(place) : meet_as_guest(place);
}

}  // namespace bora::tcp
