// SPDX-License-Identifier: Apache-2.0
// The plan book as JSON text:
//   {"format": "bora convolution plans", "version": 1,
//    "devices": [{"device": "NVIDIA H200 sm_90 132 SMs, cuDNN 9.19.0",
//                 "plans": [{"problem": "forward f16 ...", "engine": 62, "knobs": [[2, 5]]}],
//                 "banned": [{"problem": "...", "engine": 10}]}]}
#include <nlohmann/json.hpp>

#include "kernels/cudnn/choice.hpp"

namespace bora::kernels::cudnn {
namespace {

using Json = nlohmann::json;
constexpr char kFormat[] = "bora convolution plans";
constexpr int64_t kVersion = 1;

/// object[key] as T; throws Error naming `where` and the key.
template <class T>
T member(const Json& object, const char* key, const std::string& where) {
  BORA_CHECK(object.is_object(), "plan file: ", where, " is ", object.type_name(),
             ", wanted an object");
  const auto found = object.find(key);
  BORA_CHECK(found != object.end(), "plan file: ", where, " has no \"", key, "\"");
  const bool fits = std::is_same_v<T, Json> ? found->is_array()
                    : std::is_integral_v<T> ? found->is_number_integer()
                                            : found->is_string();
  BORA_CHECK(fits, "plan file: \"", key, "\" of ", where, " is ", found->type_name(), ", wanted ",
             std::is_same_v<T, Json> ? "an array"
             : std::is_integral_v<T> ? "an integer"
                                     : "text");
  return found->template get<T>();
}

std::vector<Knob> knobs_of(const Json& plan, const std::string& where) {
  std::vector<Knob> knobs;
  for (const Json& knob : member<Json>(plan, "knobs", where)) {
    BORA_CHECK(knob.is_array() && knob.size() == 2 && knob[0].is_number_integer() &&
                   knob[1].is_number_integer(),
               "plan file: a knob of ", where, " is ", knob.dump(), ", wanted [type, value]");
    knobs.push_back({knob[0].get<int64_t>(), knob[1].get<int64_t>()});
  }
  return knobs;
}

}  // namespace

std::string PlanBook::text() const {
  const std::lock_guard lock(mutex_);
  Json devices = Json::array();
  for (const auto& [name, device] : devices_) {
    Json plans = Json::array(), banned = Json::array();
    for (const auto& [problem, choice] : device.choices) {
      Json knobs = Json::array();
      for (const Knob& k : choice.knobs) knobs.push_back({k.type, k.value});
      plans.push_back({{"problem", problem}, {"engine", choice.engine}, {"knobs", knobs}});
    }
    for (const auto& [problem, engines] : device.bans)
      for (const int64_t engine : engines)
        banned.push_back({{"problem", problem}, {"engine", engine}});
    devices.push_back({{"device", name}, {"plans", plans}, {"banned", banned}});
  }
  return Json{{"format", kFormat}, {"version", kVersion}, {"devices", devices}}.dump(1) + "\n";
}

void PlanBook::load(const std::string& text) {
  Json file;
  try {
    file = Json::parse(text);
  } catch (const Json::exception& e) {
    BORA_FAIL("plan file: not JSON: ", e.what());
  }
  const auto format = member<std::string>(file, "format", "the file");
  BORA_CHECK(format == kFormat, "plan file: its format is \"", format, "\", wanted \"", kFormat,
             "\"");
  const auto version = member<int64_t>(file, "version", "the file");
  BORA_CHECK(version == kVersion, "plan file: its version is ", version, ", wanted ", kVersion);
  std::map<std::string, Device> devices;
  for (const Json& entry : member<Json>(file, "devices", "the file")) {
    const auto name = member<std::string>(entry, "device", "an entry of devices");
    Device& device = devices[name];
    for (const Json& plan : member<Json>(entry, "plans", "device '" + name + "'")) {
      const auto problem = member<std::string>(plan, "problem", "a plan of '" + name + "'");
      const std::string where = "the plan for '" + problem + "'";
      const auto engine = member<int64_t>(plan, "engine", where);
      BORA_CHECK(engine >= 0, "plan file: \"engine\" of ", where, " is ", engine,
                 ", wanted 0 or more");
      device.choices[problem] = {engine, knobs_of(plan, where)};
    }
    for (const Json& ban : member<Json>(entry, "banned", "device '" + name + "'")) {
      const auto problem = member<std::string>(ban, "problem", "a ban of '" + name + "'");
      device.bans[problem].insert(member<int64_t>(ban, "engine", "the ban for '" + problem + "'"));
    }
  }
  const std::lock_guard lock(mutex_);
  devices_ = std::move(devices);
  loaded_ = true;
  ++generation_;
  warned_.clear();
}

}  // namespace bora::kernels::cudnn
