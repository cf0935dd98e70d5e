// SPDX-License-Identifier: Apache-2.0
#include "kernels/simt/capture.hpp"

#include <algorithm>

#include "core/error.hpp"

namespace bora::simt::detail {
namespace {

thread_local std::weak_ptr<Capture> t_capture;  // that this thread began

void leave(EmulatedStream& stream) {
  stream.capture.reset();
  stream.issued = 0;
  stream.seen.clear();
}

void merge(Progress& into, const Progress& from) {
  for (const auto& [stream, n] : from) into[stream] = std::max(into[stream], n);
}

}  // namespace

void break_capture(Capture& capture, const std::string& why) {
  if (capture.broken.empty()) capture.broken = why;
  BORA_FAIL("emulated device: ", why);
}

void forbid_in_capture(const char* what) {
  if (const auto capture = t_capture.lock())
    break_capture(*capture, std::string(what) + " while a stream is being captured");
}

void record_node(EmulatedStream& stream, std::string name, std::function<void()> work) {
  stream.capture->work->nodes.push_back({std::move(name), std::move(work)});
  stream.seen[&stream] = ++stream.issued;
}

std::shared_ptr<EmulatedEvent> record_event(EmulatedStream& stream) {
  auto event = std::make_shared<EmulatedEvent>();
  event->captured = stream.capture != nullptr;
  event->capture = stream.capture;
  event->seen = stream.seen;
  return event;
}

void wait_event(EmulatedStream& stream, const EmulatedEvent& event) {
  if (!event.captured) {
    if (stream.capture)
      break_capture(*stream.capture,
                    "a captured stream waits for an event that was recorded outside the capture");
    return;
  }
  const auto capture = event.capture.lock();
  BORA_CHECK(
      capture != nullptr,
      "emulated device: a stream waits for an event that was recorded in a capture which has "
      "ended");
  if (stream.capture != nullptr && stream.capture != capture)
    break_capture(*capture, "a stream waits for an event of another capture");
  if (stream.capture == nullptr) {
    stream.capture = capture;
    capture->streams.push_back(&stream);
  }
  merge(stream.seen, event.seen);
}

std::shared_ptr<Capture> begin_capture(EmulatedStream& stream) {
  BORA_CHECK(stream.capture == nullptr, "emulated device: the stream is being captured already");
  BORA_CHECK(t_capture.expired(), "emulated device: this thread is capturing already");
  auto capture = std::make_shared<Capture>();
  capture->origin = &stream;
  capture->streams.push_back(&stream);
  stream.capture = capture;
  t_capture = capture;
  return capture;
}

std::shared_ptr<GraphWork> end_capture(EmulatedStream& stream) {
  BORA_CHECK(stream.capture != nullptr, "emulated device: the stream is not being captured");
  const auto capture = stream.capture;
  BORA_CHECK(capture->origin == &stream,
             "emulated device: a capture ends in the stream in which it began");
  std::string why = capture->broken;
  for (const EmulatedStream* s : capture->streams)
    if (why.empty() && stream.seen[s] < s->issued)
      why = "the captured stream does not wait for work of a stream that joined the capture";
  for (EmulatedStream* s : capture->streams) leave(*s);
  t_capture.reset();
  if (!why.empty()) BORA_FAIL("emulated device: no graph: ", why);
  return capture->work;
}

}  // namespace bora::simt::detail
