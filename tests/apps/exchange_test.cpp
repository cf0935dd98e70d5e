// SPDX-License-Identifier: Apache-2.0
// Weights to and from PyTorch's names and layouts (features 144, 145, 177).  The reference is made
// by tests/reference/make_torch_unet3d.py.
#include "apps/unet3d/exchange.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "apps/unet3d/setup.hpp"
#include "apps/unet3d/start_state.hpp"
#include "core/tape.hpp"
#include "data/permute.hpp"
#include "tests/data/pipeline_support.hpp"
#include "tests/support/message_of.hpp"

namespace bora::unet3d {
namespace {

using bora::testing::message_of;
using data::NamedTensor;
using data::SafetensorsReader;
using data::test::TempFolder;
using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

/// A network with memory and starting weights.
struct Network {
  Network(int64_t in, int64_t out, const ModelConfig& config, uint64_t seed = 1)
      : net(in, out, config), arena(net, DType::f32) {
    nn::initialise(net, seed);
    // Buffers too are unlike what a fresh network has.
    for (const nn::NamedBuffer& b : nn::named_buffers(net))
      b.buffer->fill(0.5 + 0.25 * static_cast<double>(seed));
    net.set_training(false);
  }
  /// The bytes of all parameters and buffers, in order.
  std::string bytes() {
    std::string all;
    const auto add = [&](const Tensor& t) {
      all.append(static_cast<const char*>(t.raw()), static_cast<size_t>(t.bytes()));
    };
    for (const nn::NamedParameter& p : nn::named_parameters(net)) add(p.parameter->value.detach());
    for (const nn::NamedBuffer& b : nn::named_buffers(net)) add(*b.buffer);
    return all;
  }
  UNet3d net;
  nn::ParameterArena arena;
};

std::string reference(const std::string& name) {
  return "tests/reference/data/torch_" + name + ".safetensors";  // tests run in the repository
}

/// Names, shapes and layouts are right if and only if the output is.  1e-5 of the largest value:
/// the network is some 10 convolutions deep, each adds a relative error of a few f32 units (6e-8)
/// times the root of its terms (at most 27 x 16: 20), together about 1e-5 at worst; two weights or
/// norms confounded would be off by tenths.
TEST(Exchange, PyTorchsWeightsGivePyTorchsOutput) {
  struct Case {
    const char* name;
    int64_t in, out;
    ModelConfig config;
  };
  const std::vector<Case> cases{
      {"group", 1, 1, {.base = 4, .levels = 2, .norm = "group", .up = "trilinear"}},
      {"batch", 3, 1, {.base = 2, .levels = 2, .norm = "batch", .up = "transposed"}},
      {"instance", 1, 2, {.base = 3, .levels = 1, .norm = "instance", .up = "transposed"}}};
  for (const Case& c : cases) {
    Network n(c.in, c.out, c.config);
    EXPECT_THAT(load_torch_tensors(SafetensorsReader(reference(c.name)), n.net), IsEmpty());
    const SafetensorsReader values(reference(std::string(c.name) + "_values"));
    const NoGrad no_grad;
    const Tensor x = data::permute(values.read("input"), {0, 2, 3, 4, 1});
    const Tensor y = data::permute(n.net.forward(x).detach(), {0, 4, 1, 2, 3});
    const Tensor wanted = values.read("output");
    ASSERT_EQ(y.shape(), wanted.shape()) << c.name;
    double error = 0, largest = 0;
    for (int64_t i = 0; i < y.numel(); ++i) {
      const double w = static_cast<double>(wanted.data<float>()[i]);
      error = std::max(error, std::abs(static_cast<double>(y.data<float>()[i]) - w));
      largest = std::max(largest, std::abs(w));
    }
    EXPECT_GT(largest, 0.1) << c.name;
    EXPECT_LE(error, 1e-5 * largest) << c.name;
  }
}

// PyTorch's tensors come back as they were, but for the count of batches that is not ours.
TEST(Exchange, GivesPyTorchItsOwnTensorsBack) {
  Network n(3, 1, {.base = 2, .levels = 2, .norm = "batch", .up = "transposed"});
  const SafetensorsReader file(reference("batch"));
  load_torch_tensors(file, n.net);
  size_t counts = 0;
  for (const auto& [name, entry] : file.entries()) counts += name.ends_with("num_batches_tracked");
  EXPECT_EQ(counts, 10u);
  const std::vector<NamedTensor> tensors = torch_tensors(n.net);
  EXPECT_EQ(tensors.size() + counts, file.entries().size());
  for (const NamedTensor& t : tensors) {
    const Tensor wanted = file.read(t.name);
    ASSERT_EQ(t.tensor.shape(), wanted.shape()) << t.name;
    EXPECT_EQ(t.tensor.to_vector<float>(), wanted.to_vector<float>()) << t.name;
  }
}

TEST(Exchange, ExportThenImportGivesTheSameBits) {
  const TempFolder folder;
  for (const char* norm : {"group", "instance", "batch", "sync_batch"})
    for (const char* up : {"trilinear", "transposed"}) {
      const ModelConfig config{.base = 4, .levels = 2, .norm = norm, .up = up};
      Network a(2, 1, config, 1), b(2, 1, config, 2);
      ASSERT_NE(a.bytes(), b.bytes());
      data::write_safetensors(folder.file("w"), torch_tensors(a.net));
      EXPECT_THAT(load_torch_tensors(SafetensorsReader(folder.file("w")), b.net), IsEmpty());
      EXPECT_EQ(a.bytes(), b.bytes()) << norm << ", " << up;
    }
}

// Heads of deep supervision are training's: a file neither has them nor changes them.
TEST(Exchange, LeavesHeadsOfDeepSupervisionAlone) {
  const TempFolder folder;
  const ModelConfig plain{.base = 4, .levels = 2};
  ModelConfig deep = plain;
  deep.deep_supervision = 1;
  Network a(2, 1, deep, 1), b(2, 1, deep, 2), without(2, 1, plain, 3);
  data::write_safetensors(folder.file("w"), torch_tensors(a.net));
  const std::vector<float> before = b.net.deep_head(1).weight().to_vector<float>();
  EXPECT_THAT(load_torch_tensors(SafetensorsReader(folder.file("w")), b.net), IsEmpty());
  EXPECT_EQ(b.net.head().weight().to_vector<float>(), a.net.head().weight().to_vector<float>());
  EXPECT_EQ(b.net.deep_head(1).weight().to_vector<float>(), before);
  EXPECT_NE(a.net.deep_head(1).weight().to_vector<float>(), before);
  EXPECT_THAT(load_torch_tensors(SafetensorsReader(folder.file("w")), without.net), IsEmpty());
  EXPECT_EQ(torch_tensors(a.net).size(), torch_tensors(without.net).size());
}

const ModelConfig kSmall{.base = 4, .levels = 1};

/// The tensors of a small network, changed, in a file; what loading that says.
LoadNotes load_changed(Network& into, const std::function<void(std::vector<NamedTensor>&)>& change,
                       std::string* message = nullptr) {
  const TempFolder folder;
  Network source(1, 1, kSmall, 1);
  std::vector<NamedTensor> tensors = torch_tensors(source.net);
  change(tensors);
  data::write_safetensors(folder.file("w"), tensors);
  LoadNotes notes;
  const std::string said = message_of(
      [&] { notes = load_torch_tensors(SafetensorsReader(folder.file("w")), into.net); });
  if (message) *message = said;
  return notes;
}

// Features 144, 177: with or without wrappers; only in front, and only if in front of all names.
TEST(Exchange, TakesThePrefixesOfWrappersOff) {
  Network source(1, 1, kSmall, 1);
  for (const char* prefix : {"module.", "_orig_mod.", "module._orig_mod.", "_orig_mod.module."}) {
    Network b(1, 1, kSmall, 2);
    const LoadNotes notes = load_changed(b, [&](auto& tensors) {
      for (NamedTensor& t : tensors) t.name = prefix + t.name;
    });
    ASSERT_EQ(notes.size(), 1u);
    EXPECT_THAT(notes[0], HasSubstr(prefix));
    EXPECT_EQ(b.bytes(), source.bytes()) << prefix;
  }
  std::string message;
  Network b(1, 1, kSmall, 2);
  load_changed(
      b, [](auto& tensors) { tensors.front().name = "module." + tensors.front().name; }, &message);
  EXPECT_THAT(message,
              AllOf(HasSubstr("missing in the file (1): encoder0.conv1.weight"),
                    HasSubstr("unexpected in the file (1): module.encoder0.conv1.weight")));
  load_changed(
      b,
      [](auto& tensors) {
        for (auto& t : tensors) t.name.insert(t.name.find('.') + 1, "module.");
      },
      &message);
  EXPECT_THAT(message, HasSubstr("bottleneck.module.conv1.weight")) << "inside a name";
}

// Feature 144: strict, all at once, and nothing is loaded.
TEST(Exchange, NamesWhatIsMissingUnexpectedAndNotFitting) {
  Network b(1, 1, kSmall, 2);
  const std::string before = b.bytes();
  std::string message;
  load_changed(
      b,
      [](auto& tensors) {
        for (NamedTensor& t : tensors) {
          if (t.name == "head.bias") t.name = "tail.bias";
          // In our own layout, as if written without a thought.
          if (t.name == "encoder0.conv2.weight")
            t.tensor = data::permute(t.tensor, {0, 2, 3, 4, 1});
          if (t.name == "up0.bias") t.tensor = t.tensor.to(DType::i64);
        }
      },
      &message);
  EXPECT_THAT(
      message,
      AllOf(
          HasSubstr("missing in the file (1): head.bias"),
          HasSubstr("unexpected in the file (1): tail.bias"), HasSubstr("not fitting (2):"),
          HasSubstr("encoder0.conv2.weight is (4, 3, 3, 3, 4) in the file, wanted (4, 4, 3, 3, 3)"),
          HasSubstr("up0.bias is of i64 in the file, wanted a floating type")));
  load_changed(
      b, [](auto& tensors) { tensors.clear(); }, &message);
  EXPECT_THAT(message, AllOf(HasSubstr("missing in the file (25)"), HasSubstr("and 15 more")));
  load_changed(
      b,
      [](auto& tensors) {
        tensors.back().tensor =
            Tensor::full({1}, std::numeric_limits<double>::infinity(), DType::f32);
      },
      &message);
  EXPECT_THAT(message, HasSubstr("NaN or infinity (1): head.bias (1 of 1)"));
  EXPECT_EQ(b.bytes(), before);
}

TEST(Exchange, ConvertsOtherFloatingTypesAndSaysSo) {
  for (const DType type : {DType::f16, DType::bf16, DType::f64}) {
    Network b(1, 1, kSmall, 2), source(1, 1, kSmall, 1);
    const LoadNotes notes = load_changed(b, [&](auto& tensors) {
      for (NamedTensor& t : tensors) t.tensor = t.tensor.to(type);
    });
    EXPECT_THAT(notes, ElementsAre("25 tensors were converted from " + std::string(name_of(type))));
    for (const nn::NamedParameter& p : nn::named_parameters(source.net)) {
      Tensor value = p.parameter->value.detach();
      value.copy_from(value.to(type).to(DType::f32));
    }
    EXPECT_EQ(b.bytes(), source.bytes()) << type;
  }
  std::string message;
  Network b(1, 1, kSmall, 2);
  load_changed(
      b, [](auto& tensors) { tensors.back().tensor = Tensor::full({1}, 1e300, DType::f64); },
      &message);
  EXPECT_THAT(message, HasSubstr("NaN or infinity (1): head.bias")) << "beyond f32";
}

StartState some_state() {
  StartState s;
  s.source = "some run";
  s.config.model = kSmall;
  s.config.train.seed = 18446744073709551615u;
  s.config.data.root = "/data/of \"mine\"";
  s.moments = {452073, 1.0 / 3, 1e6 / 7};
  s.training = {"a", "b c"};
  s.test = {"d"};
  s.orientation = "LPS";
  s.total_updates = 21;
  s.world_size = 2;
  s.updates = 17;
  return s;
}

/// A file of a small network with these texts.
void write(const std::string& path, const data::TextMap& texts) {
  Network source(1, 1, kSmall, 1);
  data::write_safetensors(path, torch_tensors(source.net), texts);
}

TEST(StartState, GoesThroughTheMetadata) {
  const TempFolder folder;
  const StartState s = some_state();
  write(folder.file("w"), metadata_of(s));
  const SafetensorsReader file(folder.file("w"));
  ASSERT_TRUE(has_start_state(file));
  EXPECT_EQ(file.metadata().at("format"), "pt");
  const StartState back = start_state_of_metadata(file);
  EXPECT_THAT(config_diff(s.config, back.config), IsEmpty());
  EXPECT_EQ(back.in_channels, 1);
  EXPECT_EQ(back.moments.n, s.moments.n);
  EXPECT_EQ(back.moments.mean, s.moments.mean);
  EXPECT_EQ(back.moments.m2, s.moments.m2);
  EXPECT_EQ(back.training, s.training);
  EXPECT_EQ(back.validation, s.validation);
  EXPECT_EQ(back.test, s.test);
  EXPECT_EQ(back.orientation, "LPS");
  EXPECT_EQ(back.total_updates, 21);
  EXPECT_EQ(back.world_size, 2);
  EXPECT_EQ(back.updates, 17);
  for (const auto& [key, text] : std::map<std::string, std::string>{{"bora.updates", "17x"},
                                                                    {"bora.normalisation.mean", ""},
                                                                    {"bora.config", "model = 1"}}) {
    data::TextMap texts = metadata_of(s);
    texts[key] = text;
    write(folder.file("bad"), texts);
    EXPECT_THAT(message_of([&] { start_state_of_metadata(SafetensorsReader(folder.file("bad"))); }),
                AllOf(HasSubstr("bad"), HasSubstr(key)));
    texts.erase(key);
    write(folder.file("bad"), texts);
    EXPECT_THAT(message_of([&] { start_state_of_metadata(SafetensorsReader(folder.file("bad"))); }),
                HasSubstr("no key '" + key + "'"));
  }
}

// Group and instance norms have the same parameters: only the metadata can tell them apart.
TEST(StartState, WeightsKeepTheirStatisticsAndTheirNetwork) {
  const TempFolder folder;
  const StartState s = some_state();
  write(folder.file("w"), metadata_of(s));
  const SafetensorsReader file(folder.file("w"));
  StartState other = s;
  EXPECT_EQ(adopt_statistics(other, file), "");
  other.moments = {100, 5, 900};
  EXPECT_THAT(adopt_statistics(other, file), HasSubstr("instead of 5 and 3"));
  EXPECT_EQ(other.moments.mean, s.moments.mean);
  other.config.model.norm = "instance";
  other.normalisation = data::NormMode::none;
  EXPECT_THAT(message_of([&] { adopt_statistics(other, file); }),
              AllOf(HasSubstr("model.norm: group in "), HasSubstr("instance in some run"),
                    HasSubstr("normalisation.mode: global in "), Not(HasSubstr("model.base"))));
  write(folder.file("plain"), {});
  EXPECT_EQ(adopt_statistics(other, SafetensorsReader(folder.file("plain"))), "");
}

// Feature 145.
TEST(StartState, ASavedStartIsACheckpoint) {
  const TempFolder folder;
  const StartState s = some_state();
  Network n(1, 1, kSmall, 3);
  const std::string path = folder.file("new/last.h5");
  save_start(path, s, n.net, n.arena);
  const TrainedModel trained = load_trained(path);
  EXPECT_EQ(trained.updates, 0);
  EXPECT_EQ(trained.training, s.training);
  EXPECT_EQ(trained.normaliser.scaling().mean, s.moments.mean);
  EXPECT_EQ(trained.arena->values().all().to_vector<float>(),
            n.arena.values().all().to_vector<float>());
  StartState back = start_state_of_checkpoint(path);
  back.updates = s.updates;
  EXPECT_EQ(metadata_of(back), metadata_of(s));
}

}  // namespace
}  // namespace bora::unet3d
