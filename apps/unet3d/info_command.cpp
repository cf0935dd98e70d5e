// SPDX-License-Identifier: Apache-2.0
#include <cstdio>

#include "apps/common/device_choice.hpp"
#include "apps/common/help.hpp"
#include "apps/common/place.hpp"
#include "apps/common/threads.hpp"
#include "apps/unet3d/commands.hpp"
#include "apps/unet3d/model.hpp"
#include "comm/communicator.hpp"
#include "core/build_info.hpp"
#include "core/log.hpp"
#include "data/hdf5.hpp"
#include "kernels/conv3d.hpp"
#include "nn/parameter_arena.hpp"

namespace bora::unet3d {
namespace {

struct InfoConfig {
  ModelConfig model;
  int64_t in_channels = 1, out_channels = 1;
  bool parameters = false;
  static constexpr auto fields() {
    return std::tuple{
        field("model", &InfoConfig::model, "The network to describe"),
        field("in_channels", &InfoConfig::in_channels, "channels of the input", positive),
        field("out_channels", &InfoConfig::out_channels, "channels of the output", positive),
        field("parameters", &InfoConfig::parameters, "list every parameter")};
  }
};

const char* name_of(ThreadLevel level) {
  switch (level) {
    case ThreadLevel::single:
      return "single";
    case ThreadLevel::funneled:
      return "funneled";
    case ThreadLevel::serialized:
      return "serialized";
    case ThreadLevel::multiple:
      return "multiple";
  }
  return "?";
}

}  // namespace

int info_command(MpiSession& session, const std::vector<std::string>& args) {
  InfoConfig config;
  const ConfigArgs given = config_parse_args(
      config, "unet3d info", args,
      {.about = "Prints this build, its machine, its ranks and the network.", .positionals = {}});
  if (apps::print_help(session, given)) return 0;
  const int threads = apps::set_compute_threads(session.local_size());
  const std::unique_ptr<Collective> ranks = make_communicator(session);
  const apps::LaunchReport places = apps::gather_launch(session, *ranks, threads);
  if (session.rank() != 0) return 0;
  std::printf("%s\n", build_info_text().c_str());
  std::printf("packages: %s; %s; HDF5 %s\n", MpiSession::library().c_str(),
              kernels::conv3d_library().c_str(), data::hdf5::library_version().c_str());
  std::printf("ranks speak by %s, thread level %s\n", session.transport_name(),
              name_of(session.thread_level()));
  std::printf("devices: %s\n", apps::describe_devices().c_str());
  for (const std::string& line : places.lines) std::printf("%s\n", line.c_str());
  for (const std::string& warning : places.warnings) log_warn(warning);
  UNet3d net(config.in_channels, config.out_channels, config.model);
  std::printf(
      "network: UNet3d base %ld, %ld levels, %s norm, %s upsampling, %ld -> %ld channels: %ld "
      "parameters; extents of at "
      "least %ld\n",
      static_cast<long>(config.model.base), static_cast<long>(config.model.levels),
      config.model.norm.c_str(), config.model.up.c_str(), static_cast<long>(config.in_channels),
      static_cast<long>(config.out_channels), static_cast<long>(nn::parameter_count(net)),
      static_cast<long>(net.min_extent()));
  if (config.parameters) std::printf("%s", nn::summary(net).c_str());
  return 0;
}

}  // namespace bora::unet3d
