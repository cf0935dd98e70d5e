// SPDX-License-Identifier: Apache-2.0
// EventWriter: event files that TensorBoard shows, without TensorFlow.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace bora::data {

/// CRC-32C (Castagnoli, polynomial 0x1EDC6F41 reflected) of some bytes; 0 of none.  Source: RFC
/// 3720, appendix B.4, whose examples a test holds it against.
uint32_t crc32c(std::string_view bytes);

/// Writes one new file "events.out.tfevents.<seconds>.<host>.<process>.<n>" in a folder.  Its name
/// sorts behind those of all event files in the folder, also where clocks of hosts differ, since
/// TensorBoard reads them in that order.
///
/// A file is a list of records: length (u64), its masked CRC-32C, bytes of a protocol buffer
/// `Event`, their masked CRC-32C.  Every call writes one record with a single write(), so that a
/// run can be watched, and a killed one loses nothing; a last record that was cut is skipped by
/// readers.  Values become f32, as TensorBoard has them.  Source: the formats' descriptions in
/// tensorflow/core/lib/io/record_writer.h, util/event.proto and framework/summary.proto.
class EventWriter {
 public:
  /// first_step: that of the first event to come.  What earlier files of the folder hold from
  /// there on is struck out: a session start with that step makes TensorBoard forget it.  So a
  /// resumed run shows each step once.  Throws Error naming the path.
  EventWriter(const std::string& folder, int64_t first_step);
  ~EventWriter();
  EventWriter(EventWriter&& other) noexcept;
  EventWriter& operator=(EventWriter&&) = delete;
  EventWriter(const EventWriter&) = delete;

  using Scalars = std::vector<std::pair<std::string, double>>;
  /// Numbers of one step under their tags ("train/loss"); a "/" groups them on the page.  Throws
  /// Error naming the path and the reason (disk full), as all of these do.
  void scalars(int64_t step, const Scalars& values);
  /// A picture: the bytes of a PNG.  Throws Error where they are none.
  void image(int64_t step, const std::string& tag, std::string_view png);
  /// Markdown.
  void text(int64_t step, const std::string& tag, const std::string& markdown);

  const std::string& path() const { return path_; }

 private:
  void write(int64_t step, std::string_view what);  // an Event with these fields
  std::string path_;
  int fd_ = -1;
};

/// Whether a file of this name is an event file, by EventWriter or another program.
bool is_event_file(std::string_view name);

}  // namespace bora::data
