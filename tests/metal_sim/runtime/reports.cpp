#include "reports.h"

#include <mutex>
#include <set>

namespace msl {
namespace {

struct Reports {
    std::mutex mutex;
    std::set<std::string> seen;
    std::string text;
};
Reports &reports() {
    static Reports *all = new Reports; // never destroyed: the fake GPU's thread may outlive static objects
    return *all;
}

} // namespace

void report(const std::string &text) {
    Reports &all = reports();
    const std::lock_guard lock(all.mutex);
    if (all.seen.size() < 200 && all.seen.insert(text).second) all.text += text + "\n";
}

int report_count() {
    Reports &all = reports();
    const std::lock_guard lock(all.mutex);
    return static_cast<int>(all.seen.size());
}

std::string take_reports() {
    Reports &all = reports();
    const std::lock_guard lock(all.mutex);
    std::string text;
    text.swap(all.text);
    all.seen.clear();
    return text;
}

} // namespace msl
