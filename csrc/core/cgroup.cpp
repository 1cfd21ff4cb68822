// Reads control group files. A limit may sit on the group of this process or on any parent, and a
// container may or may not see its own path, so every directory from the group up to the mount is tried;
// files that do not exist or do not parse are no limit.
#include "core/cgroup.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <sstream>
#include <string_view>
#include <vector>

namespace muser::cgroup {

namespace {

std::optional<int64_t> parse_number(std::string_view text) {
    int64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end == text.data())
        return std::nullopt; // "max" in v2
    return value;
}

std::string first_line(const std::string &path) {
    std::ifstream file(path);
    std::string line;
    std::getline(file, line);
    return line;
}

std::optional<uint64_t> read_bytes(const std::string &path) {
    const auto value = parse_number(first_line(path));
    return value && *value >= 0 ? std::optional<uint64_t>(static_cast<uint64_t>(*value)) : std::nullopt;
}

bool lists(std::string_view controllers, std::string_view name) {
    for (size_t begin = 0; begin <= controllers.size();) {
        const size_t end = std::min(controllers.find(',', begin), controllers.size());
        if (controllers.substr(begin, end - begin) == name)
            return true;
        begin = end + 1;
    }
    return false;
}

// Directories whose limits on `controller` bind this process, its own group first.
std::vector<std::string> directories(const std::string &root, std::string_view controller) {
    std::vector<std::string> found;
    std::ifstream file(root + "/proc/self/cgroup");
    for (std::string line; std::getline(file, line);) { // hierarchy:controllers:path
        const size_t first = line.find(':');
        const size_t second = first == std::string::npos ? first : line.find(':', first + 1);
        if (second == std::string::npos)
            continue;
        const std::string controllers = line.substr(first + 1, second - first - 1);
        std::vector<std::string> mounts;
        if (controllers.empty()) // v2
            mounts = {"/sys/fs/cgroup", "/sys/fs/cgroup/unified"};
        else if (lists(controllers, controller))
            mounts = {"/sys/fs/cgroup/" + controllers, "/sys/fs/cgroup/" + std::string(controller)};
        for (const std::string &mount : mounts)
            for (std::string path = line.substr(second + 1);; path.resize(path.rfind('/'))) {
                while (!path.empty() && path.back() == '/')
                    path.pop_back();
                found.push_back(root + mount + path);
                if (path.rfind('/') == std::string::npos)
                    break;
            }
    }
    return found;
}

// Page cache that is charged to the group.
uint64_t file_cache(const std::string &stat_path) {
    uint64_t own = 0, with_children = 0; // v1 has both; v2 has only the first, which includes children
    std::ifstream file(stat_path);
    std::string key;
    for (uint64_t value; file >> key >> value;) {
        if (key == "inactive_file" || key == "active_file")
            own += value;
        else if (key == "total_inactive_file" || key == "total_active_file")
            with_children += value;
    }
    return std::max(own, with_children);
}

void keep_least(std::optional<uint64_t> &least, uint64_t value) { least = std::min(least.value_or(value), value); }

} // namespace

std::optional<uint64_t> available_memory(const std::string &root) {
    std::optional<uint64_t> least;
    for (const std::string &directory : directories(root, "memory")) {
        std::optional<uint64_t> limit, usage;
        for (const char *name : {"/memory.max", "/memory.high", "/memory.limit_in_bytes"})
            if (const auto value = read_bytes(directory + name))
                keep_least(limit, *value);
        for (const char *name : {"/memory.current", "/memory.usage_in_bytes"})
            if (!usage)
                usage = read_bytes(directory + name);
        if (!limit || !usage)
            continue;
        const uint64_t used = *usage - std::min(*usage, file_cache(directory + "/memory.stat"));
        keep_least(least, *limit - std::min(*limit, used));
    }
    return least;
}

std::optional<double> cpu_quota(const std::string &root) {
    std::optional<double> least;
    for (const std::string &directory : directories(root, "cpu")) {
        std::string quota_text, period_text;
        std::istringstream(first_line(directory + "/cpu.max")) >> quota_text >> period_text; // v2
        if (quota_text.empty()) {
            quota_text = first_line(directory + "/cpu.cfs_quota_us"); // v1; -1: none
            period_text = first_line(directory + "/cpu.cfs_period_us");
        }
        const auto quota = parse_number(quota_text), period = parse_number(period_text);
        if (!quota || !period || *quota <= 0 || *period <= 0)
            continue;
        const double cpus = static_cast<double>(*quota) / static_cast<double>(*period);
        least = std::min(least.value_or(cpus), cpus);
    }
    return least;
}

} // namespace muser::cgroup
