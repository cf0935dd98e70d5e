// SPDX-License-Identifier: Apache-2.0
// RunConfig: the settings of any training run, whatever network and data it has.
//
// A program adds its own in front:
//   struct MyConfig : train::RunConfig {
//     int64_t width = 8;
//     static constexpr auto fields() {
//       return std::tuple_cat(std::tuple{field("width", &MyConfig::width, "channels", positive)},
//                             train::RunConfig::fields());
//     }
//   };
#pragma once

#include <concepts>
#include <string>
#include <tuple>

#include "apps/common/all_reduce_choice.hpp"
#include "core/config.hpp"

namespace bora::train {

struct OptimConfig {
  std::string kind = "adamw";
  double lr = 1e-3;
  double weight_decay = 1e-4;
  bool decay_all = true;
  double beta1 = 0.9, beta2 = 0.999, eps = 1e-8;
  double momentum = 0.9;
  bool nesterov = false;
  double clip = 1.0;
  std::string scale_lr = "none";
  std::string schedule = "one_cycle";
  double warm_fraction = 0.3;
  double div = 25.0, final_div = 1e4;
  bool cycle_beta1 = true;
  int64_t warmup = 0;
  int64_t step_every = 1000;
  double step_factor = 0.1;
  static constexpr auto fields() {
    return std::tuple{
        field("kind", &OptimConfig::kind, "optimizer", one_of("adamw", "sgd")),
        field("lr", &OptimConfig::lr, "peak learning rate", at_least(0)),
        field("weight_decay", &OptimConfig::weight_decay,
              "decoupled (adamw) or added to the gradient (sgd)", at_least(0)),
        field("decay_all", &OptimConfig::decay_all, "decay norms and biases too"),
        field("beta1", &OptimConfig::beta1, "adamw, unless cycled", between(0, 0.9999999)),
        field("beta2", &OptimConfig::beta2, "adamw", between(0, 0.9999999)),
        field("eps", &OptimConfig::eps, "adamw", positive),
        field("momentum", &OptimConfig::momentum, "sgd", between(0, 0.9999999)),
        field("nesterov", &OptimConfig::nesterov, "sgd"),
        field("clip", &OptimConfig::clip, "largest global gradient norm; 0 = off", at_least(0)),
        field(
            "scale_lr", &OptimConfig::scale_lr,
            "linear: lr is multiplied by the number of ranks, reached from lr over the warm-up; a "
            "rule for sgd, seldom right for adamw",
            one_of("none", "linear")),
        field("schedule", &OptimConfig::schedule, "learning rate over the updates of the run",
              one_of("one_cycle", "constant", "step", "cosine")),
        field("warm_fraction", &OptimConfig::warm_fraction, "one_cycle: share that warms up",
              between(0, 1)),
        field("div", &OptimConfig::div, "one_cycle: starts at lr / div", at_least(1)),
        field("final_div", &OptimConfig::final_div,
              "one_cycle: ends at lr / div / final_div; cosine: at lr / final_div", at_least(1)),
        field("cycle_beta1", &OptimConfig::cycle_beta1, "one_cycle: beta1 runs 0.95 - 0.85 - 0.95"),
        field("warmup", &OptimConfig::warmup, "constant, step, cosine: updates of linear warm-up",
              at_least(0)),
        field("step_every", &OptimConfig::step_every, "step: updates between steps", positive),
        field("step_factor", &OptimConfig::step_factor, "step: factor of each", positive)};
  }
};

struct ScalerConfig {
  double initial = 65536;
  double growth = 2, backoff = 0.5;
  int64_t interval = 2000;
  double lowest = 1, highest = 16777216;
  int64_t hysteresis = 1;
  static constexpr auto fields() {
    return std::tuple{field("initial", &ScalerConfig::initial,
                            "what the loss is multiplied by at first", positive),
                      field("growth", &ScalerConfig::growth,
                            "factor after `interval` updates without overflow", at_least(1)),
                      field("backoff", &ScalerConfig::backoff, "factor after an overflow",
                            between(0.0001, 0.9999)),
                      field("interval", &ScalerConfig::interval,
                            "updates in a row before the scale grows", positive),
                      field("lowest", &ScalerConfig::lowest,
                            "never below; an overflow there ends the run", positive),
                      field("highest", &ScalerConfig::highest, "never above", positive),
                      field("hysteresis", &ScalerConfig::hysteresis,
                            "overflows before the scale falls", positive)};
  }
};

struct TrainConfig {
  int64_t epochs = 50;
  int64_t batch = 1;
  int64_t accumulate = 1;
  int64_t global_batch = 0;
  int64_t patience = 20;
  double ema = 0;
  uint64_t seed = 0;
  std::string extend = "refuse";
  int64_t max_updates = 0;
  double max_hours = 0;
  int stop_code = 75;
  std::string step_graph = "auto";
  std::string sampling = "shuffle";
  static constexpr auto fields() {
    return std::tuple{
        field("epochs", &TrainConfig::epochs, "passes over the training cases", positive),
        field("batch", &TrainConfig::batch, "samples a rank and micro-step", positive),
        field("accumulate", &TrainConfig::accumulate, "micro-steps an update", positive),
        field("global_batch", &TrainConfig::global_batch,
              "samples an update, all ranks together: train.accumulate follows from it and the "
              "number of ranks, so that a run goes on with other ranks; 0 = off",
              at_least(0)),
        field("patience", &TrainConfig::patience,
              "epochs without a better validation loss before the run ends; 0 = never",
              at_least(0)),
        field("ema", &TrainConfig::ema,
              "decay of an exponential average of the weights, which validation, best.h5 and, by "
              "default, predictions use (0.999, say); 0 = off",
              between(0, 0.9999999)),
        field("seed", &TrainConfig::seed, "of weights, order, windows, augmentation, dropout"),
        field("extend", &TrainConfig::extend,
              "the learning rate where --resume finds other train.epochs: hold (the schedule as it "
              "was, then its last rate), stretch (as if planned so from the start), restart (a new "
              "schedule over the updates left)",
              one_of("refuse", "hold", "stretch", "restart")),
        field("max_updates", &TrainConfig::max_updates,
              "leave after so many updates in all, with a checkpoint; the schedule is not changed; "
              "0 = off",
              at_least(0)),
        field("max_hours", &TrainConfig::max_hours,
              "save and leave at the first update after so many hours; 0 = off", at_least(0)),
        field(
            "stop_code", &TrainConfig::stop_code,
            "exit code after leaving by SIGTERM, SIGUSR1 or max_hours, for a job to requeue itself",
            between(0, 125)),
        field("step_graph", &TrainConfig::step_graph,
              "on a GPU: run the step as a captured graph, with the same bits, where that can be",
              one_of("auto", "off")),
        field("sampling", &TrainConfig::sampling,
              "what an epoch is: shuffle: each sample once; weighted: as many draws, by the "
              "samples' weights; geometry: as many draws, each group (city, patient) with the same "
              "chance",
              one_of("shuffle", "weighted", "geometry"))};
  }
};

struct LoaderConfig {
  int threads = -1;
  int queue = 0;
  double timeout_s = 540;
  static constexpr auto fields() {
    return std::tuple{
        field("threads", &LoaderConfig::threads,
              "threads of a rank that read ahead; -1: 2, or 1 where its affinity mask "
              "has one core; 0 = read in the step",
              between(-1, 256)),
        field("queue", &LoaderConfig::queue, "samples read ahead; 0 = twice the threads",
              between(0, 4096)),
        field("timeout_s", &LoaderConfig::timeout_s,
              "longest wait for a sample, seconds; then the run ends and names the "
              "files that are being read.  Below comm.timeout_s, so that it is the "
              "file that is named and not the rank that waits for it; 0 = for ever",
              at_least(0))};
  }
};

struct CommConfig {
  std::string all_reduce = "auto";
  int64_t shard_samples = 1;
  std::string gradient_type = "f32";
  bool unused_as_zero = false;
  int64_t bucket_mb = 0;
  double timeout_s = 600;
  static constexpr auto fields() {
    return std::tuple{
        field("all_reduce", &CommConfig::all_reduce,
              "how gradients are summed over the ranks (docs/collectives.md); reproducible: the "
              "same bits for any number of ranks with the same global batch, without overlap",
              apps::kAllReduceChoices),
        field("shard_samples", &CommConfig::shard_samples,
              "reproducible: samples whose gradients are computed at once; those of a rank in one "
              "update must be 1, 2, 4, 8, ... times as many",
              positive),
        field("gradient_type", &CommConfig::gradient_type,
              "what gradients travel in; 16 bits halve the traffic and round",
              one_of("f32", "f16", "bf16")),
        field("unused_as_zero", &CommConfig::unused_as_zero,
              "parameters that got no gradient count as zero instead of ending the run"),
        field("bucket_mb", &CommConfig::bucket_mb,
              "MiB of gradients that travel together; 0: an eighth of them, 1 to 25 MiB",
              between(0, 2047)),
        field("timeout_s", &CommConfig::timeout_s,
              "longest wait for other ranks in one operation, seconds; then the run ends and names "
              "them",
              positive)};
  }
};

struct CudaConfig {
  bool tf32 = false;
  bool tune = false;
  int64_t workspace_mb = 256;
  static constexpr auto fields() {
    return std::tuple{
        field("tf32", &CudaConfig::tf32,
              "precision=fp32: convolutions may round their operands to 10 bits and use tensor "
              "cores"),
        field("tune", &CudaConfig::tune,
              "time several engines for each convolution, instead of believing cuDNN's first "
              "suggestion; one rank only"),
        field("workspace_mb", &CudaConfig::workspace_mb,
              "MiB of scratch memory that a convolution may ask for", between(0, 65536))};
  }
};

struct OutputConfig {
  std::string dir = "runs/run";
  int64_t log_every = 10;
  int64_t checkpoint_epochs = 1;
  int64_t checkpoint_updates = 0;
  double checkpoint_minutes = 10;
  int64_t keep = 0;
  bool tensorboard = true;
  bool report = true;
  static constexpr auto fields() {
    return std::tuple{
        field("dir", &OutputConfig::dir, "folder of this run: metrics, checkpoints, settings"),
        field("log_every", &OutputConfig::log_every, "updates between lines of the log", positive),
        field("checkpoint_epochs", &OutputConfig::checkpoint_epochs,
              "epochs between saves of last.h5", positive),
        field("checkpoint_updates", &OutputConfig::checkpoint_updates,
              "updates between further saves of last.h5; 0 = off", at_least(0)),
        field("checkpoint_minutes", &OutputConfig::checkpoint_minutes,
              "save last.h5 where the last save is so long ago, by rank 0's clock; 0 = off",
              at_least(0)),
        field("keep", &OutputConfig::keep,
              "besides last.h5 and best.h5, the newest so many of these saves stay, as "
              "update-<n>.h5; 0 = none",
              at_least(0)),
        field("tensorboard", &OutputConfig::tensorboard, "event files for TensorBoard"),
        field("report", &OutputConfig::report, "report.html with curves, cases and pictures")};
  }
};

struct RunConfig {
  OptimConfig optim;
  TrainConfig train;
  std::string device = "auto";
  std::string precision = "fp32";
  CudaConfig cuda;
  ScalerConfig scaler;
  LoaderConfig loader;
  CommConfig comm;
  OutputConfig output;
  bool resume = false;
  bool overwrite = false;
  static constexpr auto fields() {
    return std::tuple{
        field("optim", &RunConfig::optim, "The optimizer and its schedule"),
        field("train", &RunConfig::train, "The run"),
        field("device", &RunConfig::device,
              "what computes; auto: a GPU where the program has CUDA and each rank a device, else "
              "the CPU; the start says which and why (docs/training-on-gpus.md)",
              one_of("auto", "cpu", "cuda")),
        field("precision", &RunConfig::precision,
              "what convolutions compute in; weights, sums and losses stay in fp32",
              one_of("fp32", "fp16", "bf16")),
        field("cuda", &RunConfig::cuda, "Convolutions on GPUs"),
        field("scaler", &RunConfig::scaler, "Dynamic loss scaling (precision=fp16)"),
        field("loader", &RunConfig::loader, "Reading ahead"),
        field("comm", &RunConfig::comm, "How ranks work together"),
        field("output", &RunConfig::output, "What is written"),
        field("resume", &RunConfig::resume, "go on from the last checkpoint of output.dir"),
        field("overwrite", &RunConfig::overwrite,
              "begin anew in an output.dir that holds a run, whose files are removed")};
  }
};

/// The settings that make the same run again, as TOML: how this one was started (resume, overwrite)
/// is not among them.
template <std::derived_from<RunConfig> C>
std::string settings_text(C config) {
  config.resume = config.overwrite = false;
  return config_text(config);
}

}  // namespace bora::train
