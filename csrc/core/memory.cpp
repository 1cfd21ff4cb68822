// Available memory and cores, by operating system (core/memory.h says by what rule).
#include "core/memory.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <unistd.h>
#if defined(__linux__)
#include <sched.h>
#elif defined(__APPLE__)
#include <mach/mach.h>
#include <sys/sysctl.h>
#endif

#include "core/cgroup.h"

namespace muser {

namespace {

uint64_t physical_memory() {
    const long pages = sysconf(_SC_PHYS_PAGES), page = sysconf(_SC_PAGESIZE);
    return pages > 0 && page > 0 ? static_cast<uint64_t>(pages) * static_cast<uint64_t>(page) : 0;
}

#if defined(__linux__)
// The CPUs this process may run on. The mask grows until the kernel's own fits (more than 1024 CPUs).
std::vector<int> affinity() {
    std::vector<int> cpus;
    for (int capacity = 1024; capacity <= 1 << 20; capacity *= 2) {
        cpu_set_t *set = CPU_ALLOC(capacity);
        if (!set)
            break;
        const size_t bytes = CPU_ALLOC_SIZE(capacity);
        const bool known = sched_getaffinity(0, bytes, set) == 0;
        for (int cpu = 0; known && cpu < capacity; ++cpu)
            if (CPU_ISSET_S(cpu, bytes, set))
                cpus.push_back(cpu);
        CPU_FREE(set);
        if (known)
            break;
    }
    return cpus;
}
#elif defined(__APPLE__)
int sysctl_int(const char *name) {
    int value = 0;
    size_t size = sizeof value;
    return sysctlbyname(name, &value, &size, nullptr, 0) == 0 ? value : 0;
}
#endif

} // namespace

uint64_t linux_available_memory(const std::string &root) {
    uint64_t available = UINT64_MAX;
    std::ifstream file(root + "/proc/meminfo");
    for (std::string line; std::getline(file, line);)
        if (line.rfind("MemAvailable:", 0) == 0)
            available = std::strtoull(line.c_str() + sizeof("MemAvailable:") - 1, nullptr, 10) * 1024;
    if (available == UINT64_MAX)
        available = physical_memory();
    return std::min(available, cgroup::available_memory(root).value_or(UINT64_MAX));
}

int linux_available_cores(const std::string &root, std::span<const int> cpus) {
    std::set<std::string> cores; // each named by the list of its SMT siblings
    for (int cpu : cpus) {
        const std::string name = "cpu" + std::to_string(cpu);
        std::ifstream file(root + "/sys/devices/system/cpu/" + name + "/topology/thread_siblings_list");
        std::string siblings;
        cores.insert(std::getline(file, siblings) ? siblings : name);
    }
    double count = static_cast<double>(cores.size());
    if (const auto quota = cgroup::cpu_quota(root))
        count = std::min(count, *quota);
    return std::max(1, static_cast<int>(count));
}

uint64_t available_memory() {
#if defined(__linux__)
    return linux_available_memory("");
#elif defined(__APPLE__)
    vm_statistics64_data_t statistics;
    mach_msg_type_number_t count = HOST_VM_INFO64_COUNT;
    const mach_port_t host = mach_host_self();
    const kern_return_t result =
        host_statistics64(host, HOST_VM_INFO64, reinterpret_cast<host_info64_t>(&statistics), &count);
    mach_port_deallocate(mach_task_self(), host);
    if (result != KERN_SUCCESS)
        return physical_memory();
    const uint64_t pages = uint64_t{statistics.free_count} + statistics.inactive_count + statistics.purgeable_count;
    return std::min(pages * static_cast<uint64_t>(sysconf(_SC_PAGESIZE)), physical_memory());
#else
    return physical_memory();
#endif
}

int available_cores() {
#if defined(__linux__)
    const std::vector<int> cpus = affinity();
    if (!cpus.empty())
        return linux_available_cores("", cpus);
#elif defined(__APPLE__)
    for (const char *name : {"hw.perflevel0.physicalcpu", "hw.physicalcpu"})
        if (const int cores = sysctl_int(name); cores > 0)
            return cores;
#endif
    return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

} // namespace muser
