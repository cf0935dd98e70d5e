// SPDX-License-Identifier: Apache-2.0
#include "comm/tcp_transport.hpp"

#include "core/error.hpp"
#include "core/fnv.hpp"

#include <algorithm>
#include <numeric>

namespace bora {
namespace {

Request wrap(tcp::Parcel* parcel) { return {reinterpret_cast<uint64_t>(parcel)}; }
tcp::Parcel* unwrap(const Request& request) { return reinterpret_cast<tcp::Parcel*>(request.id); }

}  // namespace

TcpTransport::TcpTransport(std::shared_ptr<tcp::Mesh> mesh)
    : mesh_(std::move(mesh)),
      group_(kFnvOffset),
      members_(static_cast<size_t>(mesh_->size())),
      rank_(mesh_->rank()) {
  std::iota(members_.begin(), members_.end(), 0);
}

int TcpTransport::member(int peer) const {
  BORA_CHECK(peer >= 0 && peer < size() && peer != rank_, "tcp: rank ", peer,
             " is not another rank of this group of ", size(), "; this is rank ", rank_);
  return members_[static_cast<size_t>(peer)];
}

Request TcpTransport::send(const void* data, int64_t bytes, int peer, int tag) {
  return wrap(mesh_->send(group_, data, bytes, member(peer), tag));
}

Request TcpTransport::receive(void* data, int64_t bytes, int peer, int tag) {
  return wrap(mesh_->receive(group_, data, bytes, member(peer), tag));
}

bool TcpTransport::test(std::span<Request> requests) {
  const auto all_done = [&] {
    bool all = true;
    for (Request& request : requests) {
      tcp::Parcel* parcel = unwrap(request);
      if (!mesh_->test(parcel, tcp::Mesh::TooLong::error)) all = false;
      request = wrap(parcel);
    }
    return all;
  };
  if (all_done()) return true;
  mesh_->progress();
  return all_done();
}

bool TcpTransport::test_unwanted(Request& request) {
  tcp::Parcel* parcel = unwrap(request);
  bool done = mesh_->test(parcel, tcp::Mesh::TooLong::dropped);
  if (!done) {
    mesh_->progress();
    done = mesh_->test(parcel, tcp::Mesh::TooLong::dropped);
  }
  request = wrap(parcel);
  return done;
}

void TcpTransport::cancel(Request& request) {
  if (request.id != 0) mesh_->cancel(unwrap(request));
}

int TcpTransport::take(void* data, int64_t bytes, int tag) {
  return mesh_->take(group_, data, bytes, members_, tag);
}

std::vector<int> TcpTransport::lowest_on_host() {
  const std::vector<int> of_mesh = mesh_->lowest_on_host();
  std::vector<int> lowest;
  for (const int m : members_) {
    const auto same = [&](int other) {
      return of_mesh[static_cast<size_t>(other)] == of_mesh[static_cast<size_t>(m)];
    };
    lowest.push_back(
        static_cast<int>(std::find_if(members_.begin(), members_.end(), same) - members_.begin()));
  }
  return lowest;
}

std::unique_ptr<Transport> TcpTransport::split(int color, int key) {
  struct Wish {
    int color, key;
  };
  const std::vector<Wish> wishes = all_gather(*this, Wish{color, key}, "splitting a group");
  std::vector<int> ranks;
  for (int r = 0; r < size(); ++r)
    if (wishes[static_cast<size_t>(r)].color == color) ranks.push_back(r);
  std::stable_sort(ranks.begin(), ranks.end(), [&](int a, int b) {
    return wishes[static_cast<size_t>(a)].key < wishes[static_cast<size_t>(b)].key;
  });
  std::vector<int> members;
  for (const int r : ranks) members.push_back(members_[static_cast<size_t>(r)]);
  const int me = static_cast<int>(std::find(ranks.begin(), ranks.end(), rank_) - ranks.begin());
  const uint64_t group =
      fnv_step(fnv_step(fnv_step(group_, ++n_splits_), static_cast<uint64_t>(color)), 0x517cc1b7);
  return std::unique_ptr<Transport>(new TcpTransport(mesh_, group, std::move(members), me));
}

}  // namespace bora
