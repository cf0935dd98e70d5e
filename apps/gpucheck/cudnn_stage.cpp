// SPDX-License-Identifier: Apache-2.0
// Stage "cudnn": every convolution of the networks in every pass: the plan that is chosen and
// qualified, its time, and whether the check without a device predicted it.
#include <fstream>
#include <sstream>

#include "apps/gpucheck/layers.hpp"
#include "apps/gpucheck/stages.hpp"
#include "core/profile.hpp"
#if defined(BORA_CUDA)
#include "kernels/cudnn/survey.hpp"
#endif

namespace bora::gpucheck {

#if defined(BORA_CUDA)
namespace {

namespace cudnn = kernels::cudnn;

std::string text_of(const std::string& path) {
  if (path.empty()) return {};
  std::ifstream in(path);
  BORA_CHECK(in.good(), "cudnn: cannot read '", path, "'");
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

class Surveyor {
 public:
  Surveyor(const StageOptions& options, Stage& stage)
      : options_(options), stage_(stage), described_(text_of(options.prediction_file)) {}

  void layer(const Layer& layer, DType type) {
    for (const cudnn::ConvPass pass : {cudnn::ConvPass::forward, cudnn::ConvPass::backward_data,
                                       cudnn::ConvPass::backward_weights}) {
      // What a network that reads the input layer first never computes.
      if (pass == cudnn::ConvPass::backward_data && !layer.data_gradient) continue;
      if (lost_ || (options_.budget_s > 0 && now_s() - begin_ > options_.budget_s)) {
        stage_.numbers["left_out_for_time"] += 1;
        continue;
      }
      one(layer, type, pass);
    }
  }

 private:
  void one(const Layer& layer, DType type, cudnn::ConvPass pass) {
    doing(detail::join(layer.text, ' ', cudnn::name_of(pass), ' ', type));
    Plan plan{
        .layer = layer.text, .pass = cudnn::name_of(pass), .dtype = std::string(name_of(type))};
    Check check{.op = detail::join("convolution, ", plan.pass),
                .shape = layer.text,
                .dtype = plan.dtype,
                .reference = "sampled sums in f32",
                .tol_from = "kernels/cudnn/qualify.hpp",
                .pass = true};
    try {
      const cudnn::SurveyedPlan s =
          cudnn::survey(current_stream(options_.target.device), pass, layer.attributes, layer.x,
                        layer.w, layer.y, type, described_);
      plan.engine = s.engine;
      plan.predicted = s.predicted;
      plan.tensor_core = s.tensor_core;
      plan.deterministic = s.deterministic;
      plan.workspace_mib = static_cast<double>(s.workspace) / (1 << 20);
      plan.ms = s.ms;
      plan.tflop_per_s = s.ms > 0 ? s.flops / s.ms * 1e-9 : 0;
      plan.note = s.fault;
      if (s.engine.empty()) {
        check.pass = false;
        check.note = "no plan: " + s.fault;
      } else if (!s.deterministic) {
        check.pass = false;
        check.bitwise_repeat = false;
        check.note = "the plan is not deterministic";
      }
    } catch (const std::exception& e) {
      check.pass = false;
      check.note = e.what();
      if (const std::string why = why_lost(options_.target); !why.empty()) {
        lost_ = true;
        stage_.facts["device lost in"] = layer.text;
        stage_.facts["device lost because"] = why;
      }
    }
    stage_.plans.push_back(std::move(plan));
    stage_.checks.push_back(std::move(check));
    if (options_.so_far && now_s() - saved_ > 1) {
      options_.so_far(stage_);
      saved_ = now_s();
    }
  }

  const StageOptions& options_;
  Stage& stage_;
  std::string described_;
  double begin_ = now_s(), saved_ = begin_;
  bool lost_ = false;
};

}  // namespace
#endif

Stage cudnn_stage(const StageOptions& options) {
  Stage stage{.name = "cudnn", .device = options.target.name()};
  // The emulated device computes convolutions by the CPU's kernels.
  if (options.target.kind != Target::Kind::gpu) {
    Target none = options.target;
    if (none.reason.empty()) none.reason = "cuDNN wants a GPU";
    return no_device(stage.name, none);
  }
#if defined(BORA_CUDA)
  const double begin = now_s();
  stage.properties_json = cudnn::device_json(options.target.device);
  kernels::cuda::Conv3dSettings settings = kernels::cuda::conv3d_settings();
  settings.tune = true;
  kernels::cuda::set_conv3d_settings(settings);
  Surveyor surveyor(options, stage);
  // The most expensive layers first: f16 of both networks, then the other types.
  for (const char* network : {"mlperf", "wind"})
    for (const Layer& l : layers_of(network, options.tiny ? 8 : 32, 2, options.tiny ? 32 : 128))
      surveyor.layer(l, DType::f16);
  for (const DType type : {DType::bf16, DType::f32})
    for (const Layer& l : layers_of("mlperf", options.tiny ? 8 : 32, 2, options.tiny ? 32 : 128))
      surveyor.layer(l, type);
  if (!options.plan_file.empty()) {
    std::ofstream out(options.plan_file);
    out << kernels::cuda::plan_file_text();
    BORA_CHECK(out.flush().good(), "cudnn: cannot write '", options.plan_file, "'");
  }
  stage.seconds = now_s() - begin;
  stage.conclude();
#endif
  return stage;
}

}  // namespace bora::gpucheck
