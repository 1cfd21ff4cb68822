#include "session/decoder_pauses.h"

namespace muser {

namespace {

// Between looks for Ctrl-C. They take the host's lock, for which a busy host may let a pass wait some milliseconds.
constexpr std::chrono::milliseconds kLookInterval{100};

} // namespace

DecoderPauses::DecoderPauses(const AcceleratorScheduler &scheduler, AcceleratorScheduler::Permit &permit, const PauseRule &rule,
                             const Wait &wait, Stopwatch &watch)
    : scheduler_(scheduler), permit_(permit), rule_(rule), wait_(wait), watch_(watch),
      hooks_{[this] { return wanted(); }, [this] { pause(); }} {}

bool DecoderPauses::decoders_are_due() const {
    return scheduler_.decode_waiting() && Clock::now() - resumed_ >= rule_.stretch();
}

bool DecoderPauses::wanted() const {
    const bool cancelled = wait_.cancelled && wait_.cancelled->load(std::memory_order_relaxed);
    return cancelled || scheduler_.is_closed() || decoders_are_due() || Clock::now() - looked_ >= kLookInterval;
}

void DecoderPauses::pause() {
    const auto start = Clock::now();
    watch_.stop();
    try {
        wait_.check();
        if (scheduler_.is_closed())
            throw closed_error();
        looked_ = start;
        if (decoders_are_due()) {
            permit_.let_decoders_in(wait_);
            resumed_ = Clock::now();
        }
    } catch (...) {
        given_up_ = std::current_exception();
        throw;
    }
    watch_.go_on();
}

} // namespace muser
