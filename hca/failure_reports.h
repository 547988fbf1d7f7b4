// hca/failure_reports.h -- passes the failures of a device's requests and messages to the stats page and to
// the program's sink. Internal to hca/.
#pragma once

#include "adapter/adapter.h"
#include "hca/device_config.h"
#include "hca/device_lock.h"
#include "hca/failure_table.h"

namespace weft::hca {

class FailureReports {
 public:
  FailureReports(adapter::ChannelAdapter& adapter, DeviceLock& lock) : adapter_(adapter), lock_(lock) {}

  /// See FailureTable. Before the first context is opened.
  bool publish(StatsPage& page) { return shown_.publish(page); }
  /// With null failures appear only on the page.
  void set_sink(FailureSink* sink) noexcept { sink_ = sink; }

  // ---- without the lock --------------------
  /// Shows new failures on the page and passes them to the sink. One thread does so at a time; it also takes
  /// the failures that happen meanwhile.
  [[gnu::cold]] void tell() noexcept;
  /// No thread is telling.
  [[nodiscard]] bool told() noexcept;
  /// The helper has looked at the device.
  void looked() noexcept {
    if (sink_ != nullptr) [[unlikely]]
      sink_->looked();
  }

 private:
  adapter::ChannelAdapter& adapter_;
  DeviceLock& lock_;
  FailureTable shown_;
  FailureSink* sink_ = nullptr;
  bool telling_ = false;  // under the lock
};

}  // namespace weft::hca
