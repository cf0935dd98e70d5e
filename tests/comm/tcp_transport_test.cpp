// SPDX-License-Identifier: Apache-2.0
// Messages by TCP, and ranks that are lost.  Ranks are threads: all that they share is the network.
#include "core/host.hpp"
#include "tests/comm/tcp_ranks.hpp"
#include "tests/support/message_of.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <barrier>
#include <functional>
#include <numeric>
#include <thread>

namespace bora {
namespace {

using bora::testing::message_of;
using bora::testing::on_tcp_ranks;
using ::testing::AllOf;
using ::testing::HasSubstr;

/// Runs body on n ranks.
void on_ranks(int n, const std::function<void(TcpTransport&, tcp::Mesh&)>& body) {
  on_tcp_ranks(n, [&](const std::shared_ptr<TcpTransport>& transport, tcp::Mesh& mesh) {
    body(*transport, mesh);
  });
}

std::vector<char> pattern(int64_t bytes, int seed) {
  std::vector<char> out(static_cast<size_t>(bytes));
  for (size_t i = 0; i < out.size(); ++i)
    out[i] = static_cast<char>((i * 31 + static_cast<size_t>(seed) * 7 + i / 251) & 0xff);
  return out;
}

void wait(Transport& t, Request request) { wait_for(t, {&request, 1}, 20, "test"); }

// Row 25: both ways at once, sizes around every border: frame, buffer, eager, chunk, socket
// buffers.
TEST(TcpTransport, MessagesOfAllSizesCross) {
  on_ranks(2, [](TcpTransport& t, tcp::Mesh& mesh) {
    const int other = 1 - t.rank();
    for (const int64_t bytes :
         {0l, 1l, 47l, 48l, 49l, 4096l, (64l << 10) - 1, 64l << 10, (64l << 10) + 1, (1l << 20) - 1,
          (1l << 20) + 1, 3'000'017l, 40l << 20}) {
      const std::vector<char> out = pattern(bytes, t.rank());
      std::vector<char> in(out.size(), 'x');
      // Half of the receives come late.
      Request r;
      if (t.rank() == 0) r = t.receive(in.data(), bytes, other, 5);
      const Request s = t.send(out.data(), bytes, other, 5);
      if (t.rank() == 1) r = t.receive(in.data(), bytes, other, 5);
      wait(t, s);
      wait(t, r);
      EXPECT_TRUE(in == pattern(bytes, other)) << bytes;
    }
    mesh.goodbye();
  });
}

TEST(TcpTransport, TagsAndGroupsDoNotMixAndOrderIsKept) {
  on_ranks(2, [](TcpTransport& t, tcp::Mesh& mesh) {
    const auto part = t.split(0, -t.rank());  // ranks turned round
    ASSERT_EQ(1 - t.rank(), part->rank());
    constexpr int64_t kLarge = 300'000;
    if (t.rank() == 0) {
      const std::vector<char> a = pattern(kLarge, 1), b = pattern(10, 2), c = pattern(kLarge, 3),
                              d = pattern(20, 4);
      std::vector<Request> sends = {t.send(a.data(), kLarge, 1, 1), t.send(b.data(), 10, 1, 1),
                                    t.send(c.data(), kLarge, 1, 2), part->send(d.data(), 20, 0, 1)};
      wait_for(t, sends, 20, "sends");
    } else {
      std::vector<char> a(kLarge), b(10), c(kLarge), d(20);
      wait(t, part->receive(d.data(), 20, 1, 1));  // the last one first
      wait(t, t.receive(c.data(), kLarge, 0, 2));
      const Request first = t.receive(a.data(), kLarge, 0, 1);
      wait(t, t.receive(b.data(), 10, 0, 1));
      wait(t, first);
      EXPECT_TRUE(a == pattern(kLarge, 1) && b == pattern(10, 2) && c == pattern(kLarge, 3) &&
                  d == pattern(20, 4));
    }
    mesh.goodbye();
  });
}

// A message that nobody wants yet stays with its sender, and the small ones behind it pass.
TEST(TcpTransport, ALargeMessageBlocksNoSmallOne) {
  on_ranks(2, [](TcpTransport& t, tcp::Mesh& mesh) {
    constexpr int64_t kLarge = 32 << 20;
    const int other = 1 - t.rank();
    std::vector<char> large = pattern(kLarge, t.rank()), in(kLarge);
    const Request s = t.send(large.data(), kLarge, other, 1);
    for (int i = 0; i < 100; ++i) all_gather(t, i, "small");
    const Request r = t.receive(in.data(), kLarge, other, 1);
    for (int i = 0; i < 100; ++i) all_gather(t, i, "small");
    wait(t, s);
    wait(t, r);
    EXPECT_TRUE(in == pattern(kLarge, other));
    mesh.goodbye();
  });
}

TEST(TcpTransport, SeveralThreadsOfARankMayUseIt) {
  on_ranks(2, [](TcpTransport& t, tcp::Mesh& mesh) {
    std::vector<std::thread> threads;
    std::vector<int> wrong(4);
    for (int k = 0; k < 4; ++k) {
      threads.emplace_back([&, k] {
        for (int i = 0; i < 50; ++i) {
          const int64_t bytes = 1 + (i * 7919 + k * 104'729) % 200'000;
          const std::vector<char> out = pattern(bytes, t.rank() + k);
          std::vector<char> in(out.size());
          std::vector<Request> both = {t.receive(in.data(), bytes, 1 - t.rank(), 10 + k),
                                       t.send(out.data(), bytes, 1 - t.rank(), 10 + k)};
          wait_for(t, both, 20, "thread");
          wrong[static_cast<size_t>(k)] += in == pattern(bytes, 1 - t.rank() + k) ? 0 : 1;
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(0, std::accumulate(wrong.begin(), wrong.end(), 0));
    mesh.goodbye();
  });
}

TEST(TcpTransport, AMessageTooLongIsAnErrorUnlessUnwanted) {
  on_ranks(2, [](TcpTransport& t, tcp::Mesh& mesh) {
    for (const int64_t bytes : {100l, 200'000l}) {
      if (t.rank() == 0) {
        const std::vector<char> out = pattern(bytes, 1);
        wait(t, t.send(out.data(), bytes, 1, 1));
        wait(t, t.send(out.data(), bytes, 1, 1));
      } else {
        std::vector<char> in(static_cast<size_t>(bytes), 'x');
        EXPECT_THAT(message_of([&] { wait(t, t.receive(in.data(), bytes - 10, 0, 1)); }),
                    HasSubstr(detail::join("a message of ", bytes, " bytes from rank 0")));
        EXPECT_EQ('x', in[static_cast<size_t>(bytes - 10)]);  // nothing is written beyond
        Request r = t.receive(in.data(), 10, 0, 1);
        while (!t.test_unwanted(r)) std::this_thread::yield();
      }
      EXPECT_EQ(7, all_gather(t, 7, "still good")[1 - static_cast<size_t>(t.rank())]);
    }
    mesh.goodbye();
  });
}

TEST(TcpTransport, CancelAndTake) {
  on_ranks(3, [](TcpTransport& t, tcp::Mesh& mesh) {
    int never = 0, note = 10 + t.rank(), got = 0;
    Request r = t.receive(&never, sizeof(never), (t.rank() + 1) % 3, 9);
    t.cancel(r);
    wait(t, r);
    if (t.rank() == 0) {
      EXPECT_EQ(-1, t.take(&got, sizeof(got), 8));
      all_gather(t, 0, "now");
      int sum = 0;
      for (int n = 0; n < 2;) {
        const int from = t.take(&got, sizeof(got), 8);
        if (from < 0) continue;
        EXPECT_EQ(10 + from, got);
        sum += got;
        ++n;
      }
      EXPECT_EQ(23, sum);
    } else {
      all_gather(t, 0, "now");
      wait(t, t.send(&note, sizeof(note), 0, 8));
    }
    mesh.goodbye();
  });
}

TEST(TcpTransport, SplitByColorAndKey) {
  on_ranks(4, [](TcpTransport& t, tcp::Mesh& mesh) {
    const auto part = t.split(t.rank() % 2, -t.rank());
    EXPECT_EQ(2, part->size());
    EXPECT_EQ(t.rank() < 2 ? 1 : 0, part->rank());
    const auto ranks = all_gather(*part, t.rank(), "who");
    EXPECT_THAT(ranks, ::testing::ElementsAre(t.rank() % 2 + 2, t.rank() % 2));
    EXPECT_THAT(part->lowest_on_host(), ::testing::ElementsAre(0, 0));
    mesh.goodbye();
  });
}

// Row 154: the connection ends without a word, as when the process is killed.
TEST(TcpTransport, ALostRankIsNamedByAllThatWait) {
  std::barrier here(3), noticed(2);
  on_ranks(3, [&](TcpTransport& t, tcp::Mesh&) {
    all_gather(t, 0, "all are connected");
    here.arrive_and_wait();     // nobody waits for anything any more
    if (t.rank() == 1) return;  // without a goodbye
    int x = 0;
    // Rank 2 waits for rank 0, which is well: it notices all the same.
    EXPECT_THAT(message_of([&] { wait(t, t.receive(&x, sizeof(x), t.rank() == 0 ? 1 : 0, 4)); }),
                AllOf(HasSubstr("rank 1 on host " + host_name() + " is lost"),
                      HasSubstr("noticed by rank " + std::to_string(t.rank()))));
    EXPECT_THROW(t.send(&x, sizeof(x), 1, 4), TransportError);
    noticed.arrive_and_wait();
  });
}

TEST(TcpTransport, ARankThatHasEndedWellIsToldFromALostOne) {
  on_ranks(2, [](TcpTransport& t, tcp::Mesh& mesh) {
    if (t.rank() == 1) return mesh.goodbye();
    int x = 0;
    EXPECT_THAT(message_of([&] { wait(t, t.receive(&x, sizeof(x), 1, 4)); }),
                HasSubstr("has ended its run"));
  });
}

TEST(TcpTransport, NonsenseOnAConnectionIsALoss) {
  // Two ends of one connection: a mesh, and somebody who speaks otherwise.
  const tcp::Socket listener = tcp::listen_at(tcp::parse_endpoint("127.0.0.1:0"));
  std::string why;
  const tcp::Socket other =
      tcp::connect_to({tcp::local_end(listener.fd())}, tcp::after(5), nullptr, &why);
  std::vector<tcp::Peer> peers(2);
  while (!peers[1].socket) peers[1].socket = tcp::accept_from(listener.fd());
  peers[1].host = "elsewhere";
  auto mesh = std::make_shared<tcp::Mesh>(0, std::move(peers));
  TcpTransport t(mesh);
  const std::string nonsense(1000, '\x7f');
  ASSERT_TRUE(tcp::send_all(other.fd(), nonsense.data(), nonsense.size(), tcp::after(5), &why));
  int x = 0;
  EXPECT_THAT(message_of([&] { wait(t, t.receive(&x, sizeof(x), 1, 4)); }),
              AllOf(HasSubstr("rank 1 on host elsewhere is lost"), HasSubstr("nonsense")));
}

TEST(TcpTransport, WaitingHasALimit) {
  on_ranks(2, [](TcpTransport& t, tcp::Mesh& mesh) {
    int x = 0;
    Request r = t.receive(&x, sizeof(x), 1 - t.rank(), 4);
    EXPECT_THAT(message_of([&] {
                  wait_for(t, {&r, 1}, 0.2, "nothing");
                }),
                HasSubstr("nothing: time is over"));
    t.cancel(r);
    all_gather(t, 0, "both have waited");
    mesh.goodbye();
  });
}

}  // namespace
}  // namespace bora
