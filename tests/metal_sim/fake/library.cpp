#include "library.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>

#include "settings.h"

extern char **environ;

namespace fake {
namespace {

const char *or_default(const char *variable, const char *value) {
    const char *set = getenv(variable);
    return set ? set : value;
}

// A host's signal would end this thread's read with nothing read. Another thread takes it, or this one afterwards.
class NoSignals {
  public:
    NoSignals() {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_SETMASK, &all, &before_);
    }
    ~NoSignals() { pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

  private:
    sigset_t before_;
};

// One Python process for as long as this one runs. A request is "MODE LENGTH\nSOURCE", an answer
// "ok PATH\n" or "error LENGTH\nTEXT".
class CompileService {
  public:
    bool ask(const std::string &mode, const std::string &source, std::string *answer) {
        if (!to_ && !start()) {
            *answer = "the compile service did not start";
            return false;
        }
        const NoSignals meanwhile;
        fprintf(to_, "%s %zu\n", mode.c_str(), source.size());
        fwrite(source.data(), 1, source.size(), to_);
        fflush(to_);
        char line[4096];
        if (!fgets(line, sizeof line, from_)) {
            *answer = "the compile service ended";
            return false;
        }
        line[strcspn(line, "\n")] = 0;
        if (strncmp(line, "ok ", 3) == 0) {
            *answer = line + 3;
            return true;
        }
        std::string text(strtoull(line + strcspn(line, " "), nullptr, 10), ' ');
        text.resize(fread(text.data(), 1, text.size(), from_));
        *answer = text;
        return false;
    }

  private:
    bool start() {
        int request[2], reply[2];
        if (pipe2(request, O_CLOEXEC) || pipe2(reply, O_CLOEXEC)) return false;
        posix_spawn_file_actions_t actions;
        posix_spawn_file_actions_init(&actions);
        posix_spawn_file_actions_adddup2(&actions, request[0], 0);
        posix_spawn_file_actions_adddup2(&actions, reply[1], 1);
        const std::string python = or_default("MUSER_METAL_SIM_PYTHON", MSL_PYTHON);
        const std::string script = std::string(MSL_SIMULATOR) + "/compile_service.py";
        char *arguments[] = {const_cast<char *>(python.c_str()), const_cast<char *>(script.c_str()), nullptr};
        pid_t child;
        const int failed = posix_spawnp(&child, arguments[0], &actions, nullptr, arguments, environ);
        posix_spawn_file_actions_destroy(&actions);
        close(request[0]);
        close(reply[1]);
        if (failed) return false;
        to_ = fdopen(request[1], "w"); // the child ends when this process closes it
        from_ = fdopen(reply[0], "r");
        return true;
    }

    FILE *to_ = nullptr, *from_ = nullptr;
};

std::mutex mutex;

} // namespace

const msl::Kernel *Library::find(const std::string &name) const {
    for (const msl::Kernel *kernel = kernels; kernel->name; ++kernel)
        if (name == kernel->name) return kernel;
    return nullptr;
}

std::shared_ptr<Library> load_source(const std::string &source, std::string *problem) {
    static auto *service = new CompileService;
    static auto *loaded = new std::map<std::pair<std::string, std::string>, std::shared_ptr<Library>>;
    const std::lock_guard lock(mutex);
    const std::string mode = settings().check ? "check" : settings().fast_math ? "fast-math" : "fast";
    auto &library = (*loaded)[{mode, source}];
    if (library) return library;
    std::string answer;
    if (!service->ask(mode, source, &answer)) {
        *problem = answer;
        return nullptr;
    }
    void *handle = dlopen(answer.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!handle) {
        *problem = dlerror();
        return nullptr;
    }
    library = std::make_shared<Library>();
    library->kernels = static_cast<const msl::Kernel *>(dlsym(handle, "msl_kernels"));
    library->constants = static_cast<const msl::FunctionConstant *>(dlsym(handle, "msl_constants"));
    return library;
}

} // namespace fake
