// A prompt's pass that lets waiting decoders in, and hears of cancellation, Ctrl-C and the model's close before
// its end.
#pragma once

#include <exception>

#include "core/wait.h"
#include "device/device.h"
#include "sched/pause_rule.h"
#include "sched/scheduler.h"
#include "session/stopwatch.h"

namespace muser {

class DecoderPauses {
  public:
    // From now on the pass runs, under this permit; the watch stands still while the pass does. What is given must
    // outlive it.
    DecoderPauses(const AcceleratorScheduler &scheduler, AcceleratorScheduler::Permit &permit, const PauseRule &rule, const Wait &wait,
                  Stopwatch &watch);
    DecoderPauses(const DecoderPauses &) = delete;
    DecoderPauses &operator=(const DecoderPauses &) = delete;

    const Pauses &hooks() const { return hooks_; }
    // Why the pass was given up, which was not the device's fault; null: it was not. The permit may be gone then.
    std::exception_ptr given_up() const { return given_up_; }

  private:
    bool decoders_are_due() const;
    bool wanted() const;
    void pause();

    const AcceleratorScheduler &scheduler_;
    AcceleratorScheduler::Permit &permit_;
    const PauseRule &rule_;
    const Wait &wait_;
    Stopwatch &watch_;
    Clock::time_point resumed_ = Clock::now(), looked_ = resumed_;
    std::exception_ptr given_up_;
    Pauses hooks_;
};

} // namespace muser
