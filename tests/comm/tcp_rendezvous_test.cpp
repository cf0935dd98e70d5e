// SPDX-License-Identifier: Apache-2.0
// Rows 1, 2, 9, 14, 169, 182: ranks that find each other, and those that do not.  Ranks are threads
// here: all that they share is the network.
#include "comm/tcp_rendezvous.hpp"
#include "core/error.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <functional>
#include <thread>

namespace bora::tcp {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// A port that nobody listens at a moment ago.
int free_port() { return local_end(listen_at(parse_endpoint("127.0.0.1:0")).fd()).port(); }

LaunchPlace place(int rank, int size, int port, double limit_s = 20) {
  LaunchPlace p;
  p.rank = rank;
  p.size = size;
  p.master_host = "127.0.0.1";
  p.master_port = port;
  p.limit_s = limit_s;
  return p;
}

struct Outcome {
  std::vector<Peer> peers;
  std::string error;
  bool usage = false;
  double took_s = 0;
};

std::vector<Outcome> meet_all(
    const std::vector<LaunchPlace>& places, const std::function<void()>& meanwhile = [] {}) {
  std::vector<Outcome> outcomes(places.size());
  std::vector<std::thread> ranks;
  for (size_t i = 0; i < places.size(); ++i) {
    ranks.emplace_back([&, i] {
      const auto start = Clock::now();
      try {
        outcomes[i].peers = meet(places[i]);
      } catch (const UsageError& e) {
        outcomes[i].error = e.what();
        outcomes[i].usage = true;
      } catch (const Error& e) {
        outcomes[i].error = e.what();
      }
      outcomes[i].took_s = std::chrono::duration<double>(Clock::now() - start).count();
    });
  }
  meanwhile();
  for (std::thread& rank : ranks) rank.join();
  return outcomes;
}

std::vector<LaunchPlace> places(int size, int port, double limit_s = 20) {
  std::vector<LaunchPlace> all;
  for (int r = 0; r < size; ++r) all.push_back(place(r, size, port, limit_s));
  return all;
}

TEST(Rendezvous, ConnectsEachRankWithEveryOther) {
  for (const int size : {1, 2, 5}) {
    auto outcomes = meet_all(places(size, free_port()));
    // What one end of a connection says arrives at the other, and it is the right rank's.
    for (int a = 0; a < size; ++a) {
      auto& peers = outcomes[static_cast<size_t>(a)].peers;
      ASSERT_EQ(static_cast<size_t>(size), peers.size()) << outcomes[static_cast<size_t>(a)].error;
      for (int b = 0; b < size; ++b) {
        const Peer& peer = peers[static_cast<size_t>(b)];
        EXPECT_EQ(host_identity(), peer.identity);
        EXPECT_EQ(a != b, static_cast<bool>(peer.socket));
        const int said[2] = {a, b};
        std::string why;
        if (a != b) {
          ASSERT_TRUE(send_all(peer.socket.fd(), said, sizeof(said), after(5), &why)) << why;
        }
      }
    }
    for (int a = 0; a < size; ++a)
      for (int b = 0; b < size; ++b) {
        int heard[2] = {-1, -1};
        std::string why;
        if (a == b) continue;
        const int fd = outcomes[static_cast<size_t>(a)].peers[static_cast<size_t>(b)].socket.fd();
        ASSERT_TRUE(receive_all(fd, heard, sizeof(heard), after(5), &why)) << why;
        EXPECT_THAT(heard, ::testing::ElementsAre(b, a));
      }
  }
}

TEST(Rendezvous, SameRankTwiceIsToldToAll) {
  const int port = free_port();
  const auto outcomes = meet_all({place(0, 3, port), place(1, 3, port), place(1, 3, port)});
  for (const Outcome& o : outcomes) {
    EXPECT_THAT(o.error, HasSubstr("two processes were told RANK=1"));
    EXPECT_TRUE(o.usage);
    EXPECT_LT(o.took_s, 10);
  }
}

TEST(Rendezvous, DifferentSizesAreToldToAll) {
  const int port = free_port();
  for (const Outcome& o : meet_all({place(0, 2, port), place(1, 3, port)})) {
    EXPECT_THAT(o.error, AllOf(HasSubstr("WORLD_SIZE differs: rank 1"),
                               HasSubstr("was told 3 ranks, rank 0"), HasSubstr(" 2")));
    EXPECT_TRUE(o.usage);
  }
}

TEST(Rendezvous, ARankOutOfRangeIsNamed) {
  const int port = free_port();
  EXPECT_THROW(meet(place(2, 2, port)), Error);
}

TEST(Rendezvous, AnAbsentRankIsNamedOnAllAfterTheLimit) {
  const int port = free_port();
  for (const Outcome& o : meet_all({place(0, 4, port, 1), place(2, 4, port, 1)})) {
    EXPECT_THAT(o.error, AllOf(HasSubstr("time is over after 1 s"), HasSubstr("rank(s) 1, 3"),
                               HasSubstr("127.0.0.1:" + std::to_string(port))));
    EXPECT_LT(o.took_s, 10);
  }
}

TEST(Rendezvous, NobodyAtTheMeetingPointIsReportedWithHostAndPort) {
  const int port = free_port();
  const auto outcomes = meet_all({place(1, 2, port, 1)});
  EXPECT_THAT(outcomes[0].error,
              AllOf(HasSubstr("rank 1 of 2"),
                    HasSubstr("no connection to rank 0 at 127.0.0.1:" + std::to_string(port)),
                    HasSubstr("within 1 s"), HasSubstr("Connection refused")));
  LaunchPlace nowhere = place(1, 2, port, 1);
  nowhere.master_host = "no-such-host.invalid";
  const auto unknown = meet_all({nowhere});
  EXPECT_THAT(unknown[0].error, AllOf(HasSubstr("no-such-host.invalid:" + std::to_string(port)),
                                      HasSubstr("no address of host")));
}

TEST(Rendezvous, ABusyPortIsReportedAtOnce) {
  const Socket taken = listen_at(parse_endpoint("127.0.0.1:0"));
  const int port = local_end(taken.fd()).port();
  const auto outcomes = meet_all({place(0, 2, port)});
  EXPECT_THAT(outcomes[0].error,
              AllOf(HasSubstr("127.0.0.1:" + std::to_string(port)), HasSubstr("port is in use"),
                    HasSubstr("choose another MASTER_PORT")));
  EXPECT_LT(outcomes[0].took_s, 5);
}

// Somebody else listens there: a web server, say.
TEST(Rendezvous, AnotherServiceAtTheMeetingPointIsReported) {
  const Socket service = listen_at(parse_endpoint("127.0.0.1:0"));
  const int port = local_end(service.fd()).port();
  const auto outcomes = meet_all({place(1, 2, port)}, [&] {
    Socket guest;
    while (!guest) guest = accept_from(service.fd());
    const std::string page = "HTTP/1.1 400 Bad Request\r\n\r\n";
    std::string why;
    send_all(guest.fd(), page.data(), page.size(), after(5), &why);
  });
  EXPECT_THAT(outcomes[0].error, HasSubstr("is not a Bora"));
}

TEST(Rendezvous, StrangersAreTurnedAway) {
  const int port = free_port();
  const auto outcomes = meet_all(places(2, port), [&] {
    for (const std::string& rubbish :
         {std::string("GET / HTTP/1.1\r\n\r\n"), std::string(100'000, 'x'), std::string("B"),
          std::string("BoraTcp1\x01\0\0\0\xff\xff\xff\xff", 16), std::string()}) {
      std::string why;
      Socket stranger;
      for (int i = 0; i < 100 && !stranger; ++i)
        stranger = connect_to({parse_endpoint("127.0.0.1:" + std::to_string(port))}, after(1),
                              nullptr, &why);
      if (stranger) send_all(stranger.fd(), rubbish.data(), rubbish.size(), after(0.1), &why);
    }
  });
  for (const Outcome& o : outcomes) EXPECT_EQ("", o.error);
}

// Silence is no hindrance either: the stranger stays connected while the ranks meet.
TEST(Rendezvous, ASilentStrangerHoldsNobodyUp) {
  const int port = free_port();
  Socket stranger;
  std::vector<LaunchPlace> all = places(2, port);
  std::thread late;
  std::vector<Outcome> second;
  const auto first = meet_all({all[0]}, [&] {
    std::string why;
    while (!stranger)
      stranger = connect_to({parse_endpoint("127.0.0.1:" + std::to_string(port))}, after(1),
                            nullptr, &why);
    second = meet_all({all[1]});
  });
  EXPECT_EQ("", first[0].error);
  EXPECT_EQ("", second[0].error);
  EXPECT_LT(second[0].took_s, 5);
}

TEST(Rendezvous, ARankOfAnotherLaunchIsSentAway) {
  const int port = free_port();
  std::vector<LaunchPlace> all = places(2, port);
  LaunchPlace foreign = all[1];
  for (LaunchPlace& p : all) p.token = "ours";
  foreign.token = "theirs";
  std::vector<Outcome> others, ours;
  const auto host = meet_all({all[0]}, [&] {
    others = meet_all({foreign});
    ours = meet_all({all[1]});
  });
  EXPECT_THAT(others[0].error, HasSubstr("another run has its meeting point here"));
  EXPECT_EQ("", host[0].error);
  EXPECT_EQ("", ours[0].error);
}

TEST(Rendezvous, AHandedOverListenerIsUsed) {
  const Socket listener = listen_at(parse_endpoint("127.0.0.1:0"));
  std::vector<LaunchPlace> all = places(2, local_end(listener.fd()).port());
  all[0].listener = ::dup(listener.fd());  // its own now
  for (const Outcome& o : meet_all(all)) EXPECT_EQ("", o.error);
}

// Row 169.
TEST(Rendezvous, TheNetworkCanBeChosen) {
  for (const char* interface : {"lo", "127.0.0.1"}) {
    std::vector<LaunchPlace> all = places(2, free_port());
    for (LaunchPlace& p : all) p.interface = interface;
    for (const Outcome& o : meet_all(all)) {
      ASSERT_EQ("", o.error);
      for (const Peer& peer : o.peers)
        if (peer.socket) {
          EXPECT_TRUE(local_end(peer.socket.fd()).is_loopback());
        }
    }
  }
}

TEST(Rendezvous, AnUnknownNetworkIsNamedWithThoseThatThereAre) {
  std::vector<LaunchPlace> all = places(2, free_port());
  all[0].interface = "eth99";
  all[1].interface = "eth99";
  all[1].limit_s = 3;
  for (const Outcome& o : meet_all(all)) {
    EXPECT_THAT(o.error, AllOf(HasSubstr("BORA_INTERFACE='eth99'"), HasSubstr("lo (127.0.0.1)")));
    EXPECT_TRUE(o.usage);
  }
}

TEST(Endpoint, TextAndBack) {
  for (const char* text : {"127.0.0.1:0", "10.0.0.3:29500", "[::1]:65535", "[2001:db8::7]:1"})
    EXPECT_EQ(text, parse_endpoint(text).text());
  for (const char* text : {"", "7", "a:1", "1.2.3.4:", "1.2.3.4:x", "1.2.3.4:65536", ":80"})
    EXPECT_THROW(parse_endpoint(text).text(), Error) << text;
  EXPECT_TRUE(parse_endpoint("127.0.1.1:0").is_loopback());
  EXPECT_TRUE(parse_endpoint("[::1]:0").is_loopback());
  EXPECT_FALSE(parse_endpoint("128.0.0.1:0").is_loopback());
}

}  // namespace
}  // namespace bora::tcp
