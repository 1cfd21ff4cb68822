// What the checks found. Kept until somebody takes it; the same finding is kept once. Any thread.
#pragma once

#include <string>

namespace msl {

void report(const std::string &text);
int report_count();
std::string take_reports(); // one a line; empties the list

} // namespace msl
