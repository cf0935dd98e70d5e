// SPDX-License-Identifier: Apache-2.0
#include "kernels/cudnn/survey.hpp"

#include "kernels/cudnn/qualify.hpp"
#include "kernels/cudnn/ready_plans.hpp"
#include "kernels/cudnn/tuning.hpp"

namespace bora::kernels::cudnn {

SurveyedPlan survey(Stream stream, ConvPass pass, const Conv3dAttributes& a, const Shape& x,
                    const Shape& w, const Shape& y, DType type,
                    const std::string& described_device) {
  const ConvKey key =
      key_of(pass, problem_of(a, x, w, y), type, false, false, 16, cuda::conv3d_settings());
  Session& session = Session::of(stream);
  const std::shared_ptr<const ReadyPlan> ready = ready_plan(session, key);
  SurveyedPlan out;
  if (!described_device.empty()) {
    const DeviceDescription device = DeviceDescription::from_json(described_device);
    const std::vector<ConvPlan> plans = find_plans(key, ready->graph, device, 1, {});
    if (!plans.empty()) out.predicted = text_of(plans.front().choice);
  }
  if (!ready->plan) {
    out.fault = ready->reasons;
    return out;
  }
  const ConvPlan& plan = *ready->plan;
  out.engine = text_of(plan.choice);
  out.tensor_core = plan.notes.tensor_core;
  out.deterministic = !plan.notes.nondeterministic;
  out.workspace = plan.workspace;
  const PassShapes shapes = shapes_of(key);
  Tensor first = Tensor::empty(shapes.first, type, stream.device),
         second = Tensor::empty(shapes.second, type, stream.device),
         result = Tensor::empty(shapes.result, type, stream.device);
  fill_exact(stream, first, 1);
  fill_exact(stream, second, 2);
  const std::vector<Session::Binding> tensors = bindings(pass, first, second, Tensor(), result);
  out.ms = time_on_device(stream, [&] { session.execute(plan, tensors); });
  out.flops = 2.0 * static_cast<double>(terms_of(key)) * static_cast<double>(result.numel());
  return out;
}

std::string device_json(Device device) {
  return DeviceDescription::from_device(device.index).json();
}

std::string library_version() {
  const size_t v = cudnnGetVersion();
  return detail::join(v / 10000, '.', v / 100 % 100, '.', v % 100);
}

}  // namespace bora::kernels::cudnn
