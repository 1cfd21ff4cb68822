// Available memory and cores, on this machine (plausible) and on made-up Linux machines (exact).
#define DOCTEST_CONFIG_IMPLEMENT_WITH_MAIN
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include <stdlib.h>

#include "core/memory.h"

using namespace muser;

namespace {

constexpr uint64_t kGiB = uint64_t{1} << 30;

// A directory with a made-up /proc and /sys, removed at the end.
class Machine {
  public:
    Machine(std::initializer_list<std::pair<std::string, std::string>> files) {
        std::string pattern = (std::filesystem::temp_directory_path() / "muser-machine-XXXXXX").string();
        REQUIRE(mkdtemp(pattern.data()) != nullptr);
        root_ = pattern;
        for (const auto &[path, text] : files) {
            std::filesystem::create_directories(std::filesystem::path(root_ + path).parent_path());
            std::ofstream(root_ + path) << text;
        }
    }
    ~Machine() { std::filesystem::remove_all(root_); }

    uint64_t memory() const { return linux_available_memory(root_); }
    int cores(std::vector<int> affinity) const { return linux_available_cores(root_, affinity); }

  private:
    std::string root_;
};

const std::pair<std::string, std::string> kEightGiB = {
    "/proc/meminfo", "MemTotal:       16777216 kB\nMemFree:  1 kB\nMemAvailable:    8388608 kB\nBuffers: 1 kB\n"};
const std::string kV2 = "/sys/fs/cgroup/service", kV1 = "/sys/fs/cgroup/memory/service";

std::string bytes(uint64_t count) { return std::to_string(count) + "\n"; }

std::pair<std::string, std::string> siblings(int cpu, const std::string &list) {
    return {"/sys/devices/system/cpu/cpu" + std::to_string(cpu) + "/topology/thread_siblings_list", list + "\n"};
}

} // namespace

TEST_CASE("this machine has memory and at least one core") {
    CHECK(available_memory() > (uint64_t{1} << 20));
    CHECK(available_memory() < (uint64_t{1} << 50));
    CHECK(available_cores() >= 1);
    CHECK(available_cores() <= 4096);
}

TEST_CASE("without a control group MemAvailable counts") {
    CHECK(Machine{kEightGiB}.memory() == 8 * kGiB);
    CHECK(Machine{kEightGiB, {"/proc/self/cgroup", "0::/\n"}}.memory() == 8 * kGiB);
}

TEST_CASE("v2: limit minus usage, page cache counts as free") {
    CHECK(Machine{kEightGiB,
                  {"/proc/self/cgroup", "0::/service\n"},
                  {kV2 + "/memory.max", bytes(4 * kGiB)},
                  {kV2 + "/memory.current", bytes(3 * kGiB)},
                  {kV2 + "/memory.stat", "anon 5\ninactive_file 1073741824\nactive_file 1073741824\n"}}
              .memory() == 3 * kGiB);
}

TEST_CASE("v2: no limit is no limit, and memory.high binds") {
    CHECK(Machine{kEightGiB,
                  {"/proc/self/cgroup", "0::/service\n"},
                  {kV2 + "/memory.max", "max\n"},
                  {kV2 + "/memory.current", bytes(3 * kGiB)}}
              .memory() == 8 * kGiB);
    CHECK(Machine{kEightGiB,
                  {"/proc/self/cgroup", "0::/service\n"},
                  {kV2 + "/memory.max", "max\n"},
                  {kV2 + "/memory.high", bytes(5 * kGiB)},
                  {kV2 + "/memory.current", bytes(3 * kGiB)}}
              .memory() == 2 * kGiB);
}

TEST_CASE("v2: the limit of a parent binds, and so does the container's root") {
    CHECK(Machine{kEightGiB,
                  {"/proc/self/cgroup", "0::/user.slice/app.scope\n"},
                  {"/sys/fs/cgroup/user.slice/memory.max", bytes(kGiB)},
                  {"/sys/fs/cgroup/user.slice/memory.current", bytes(kGiB / 2)},
                  {"/sys/fs/cgroup/user.slice/app.scope/memory.max", bytes(6 * kGiB)},
                  {"/sys/fs/cgroup/user.slice/app.scope/memory.current", bytes(kGiB / 2)}}
              .memory() == kGiB / 2);
    CHECK(Machine{kEightGiB,
                  {"/proc/self/cgroup", "0::/docker/0123abc\n"}, // the host's path, not visible inside
                  {"/sys/fs/cgroup/memory.max", bytes(2 * kGiB)},
                  {"/sys/fs/cgroup/memory.current", bytes(kGiB)}}
              .memory() == kGiB);
}

TEST_CASE("v1: limit minus usage; the huge number means none") {
    const std::pair<std::string, std::string> self = {"/proc/self/cgroup", "9:cpu,cpuacct:/x\n4:memory:/service\n0::/\n"};
    CHECK(Machine{kEightGiB,
                  self,
                  {kV1 + "/memory.limit_in_bytes", bytes(4 * kGiB)},
                  {kV1 + "/memory.usage_in_bytes", bytes(3 * kGiB)},
                  {kV1 + "/memory.stat", "inactive_file 7\ntotal_inactive_file 1073741824\ntotal_active_file 0\n"}}
              .memory() == 2 * kGiB);
    CHECK(Machine{kEightGiB,
                  self,
                  {kV1 + "/memory.limit_in_bytes", "9223372036854771712\n"},
                  {kV1 + "/memory.usage_in_bytes", bytes(3 * kGiB)}}
              .memory() == 8 * kGiB);
}

TEST_CASE("usage above the limit is zero, not a wrap-around") {
    CHECK(Machine{kEightGiB,
                  {"/proc/self/cgroup", "0::/service\n"},
                  {kV2 + "/memory.max", bytes(kGiB)},
                  {kV2 + "/memory.current", bytes(2 * kGiB)}}
              .memory() == 0);
}

TEST_CASE("broken or missing files are no limit and no crash") {
    CHECK(Machine{}.memory() > 0); // physical memory
    CHECK(Machine{kEightGiB,
                  {"/proc/self/cgroup", "\n:\n::\n0:\n0::\n0::service\n4:memory:\n"},
                  {"/sys/fs/cgroup/memory.max", "many\n"},
                  {"/sys/fs/cgroup/memory.current", "-5\n"},
                  {"/sys/fs/cgroup/cpu.max", "\n"}}
              .memory() == 8 * kGiB);
    CHECK(Machine{{"/proc/self/cgroup", "0::/\n"}, {"/sys/fs/cgroup/cpu.max", "1 0\n"}}.cores({0, 1}) == 2);
}

TEST_CASE("cores: SMT siblings count once, the affinity mask and the quota bind, never below one") {
    const auto a = siblings(0, "0,2"), b = siblings(2, "0,2"), c = siblings(1, "1,3"), d = siblings(3, "1,3");
    CHECK(Machine{a, b, c, d}.cores({0, 1, 2, 3}) == 2);
    CHECK(Machine{a, b, c, d}.cores({0, 2}) == 1);
    CHECK(Machine{a, b, c, d}.cores({2}) == 1);
    CHECK(Machine{}.cores({0, 1, 2}) == 3); // topology unknown
    CHECK(Machine{}.cores({}) == 1);
    const std::pair<std::string, std::string> self = {"/proc/self/cgroup", "0::/service\n"};
    CHECK(Machine{self, {kV2 + "/cpu.max", "250000 100000\n"}}.cores({0, 1, 2, 3}) == 2);
    CHECK(Machine{self, {kV2 + "/cpu.max", "max 100000\n"}}.cores({0, 1, 2, 3}) == 4);
    CHECK(Machine{self, {kV2 + "/cpu.max", "50000 100000\n"}}.cores({0, 1, 2, 3}) == 1);
    CHECK(Machine{self, {kV2 + "/cpu.max", "400000 100000\n"}, {"/sys/fs/cgroup/cpu.max", "300000 100000\n"}}.cores(
              {0, 1, 2, 3}) == 3);
}

TEST_CASE("cores: the v1 quota binds; -1 means none") {
    const std::pair<std::string, std::string> self = {"/proc/self/cgroup", "9:cpuacct,cpu:/service\n"};
    const std::string group = "/sys/fs/cgroup/cpu/service";
    CHECK(Machine{self, {group + "/cpu.cfs_quota_us", "200000\n"}, {group + "/cpu.cfs_period_us", "100000\n"}}.cores(
              {0, 1, 2, 3}) == 2);
    CHECK(Machine{self, {group + "/cpu.cfs_quota_us", "-1\n"}, {group + "/cpu.cfs_period_us", "100000\n"}}.cores(
              {0, 1, 2, 3}) == 4);
}
