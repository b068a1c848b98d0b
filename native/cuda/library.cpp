#include "cuda/library.h"

#include <dlfcn.h>
#include <glob.h>

#include <cstddef>
#include <cstdlib>
#include <mutex>
#include <utility>

#include "cuda/driver.h"

namespace spdl::cuda {
namespace {

struct SearchFolders {
    std::mutex mutex;
    std::vector<std::string> folders;
};

// Never destroyed: threads may load libraries until the process ends.
SearchFolders& search_folders() {
    static SearchFolders& instance = *new SearchFolders;
    return instance;
}

bool is_absent(const std::string& message) {
    return message.find("No such file") != std::string::npos;
}

// Returns the files of a folder that are a library under the name that wheels with libraries inside give it: libX.so.13
// becomes libX.1234abcd.so.13.
std::vector<std::string> renamed(const std::string& folder, const std::string& file) {
    const std::size_t suffix = file.find(".so");
    if (suffix == std::string::npos) {
        return {};
    }
    const std::string pattern = folder + "/" + file.substr(0, suffix) + ".*" + file.substr(suffix);
    glob_t found{};
    std::vector<std::string> paths;
    if (::glob(pattern.c_str(), 0, nullptr, &found) == 0) {
        paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
    }
    ::globfree(&found);
    return paths;
}

std::vector<std::string> candidates(const Library::Names& names) {
    if (const char* const replacement = std::getenv(names.replacement)) {
        return {replacement};
    }
    // A name alone also finds what is loaded already, by PyTorch for example.
    std::vector<std::string> paths = names.files;
    SearchFolders& search = search_folders();
    const std::scoped_lock lock(search.mutex);
    for (const std::string& file : names.files) {
        for (const std::string& folder : search.folders) {
            for (const char* const part : names.folders) {
                paths.push_back(folder + "/" + part + "/" + file);
            }
            const std::vector<std::string> inside = renamed(folder, file);
            paths.insert(paths.end(), inside.begin(), inside.end());
        }
    }
    return paths;
}

}  // namespace

Library::Library(const Names& names) : title_(names.title), too_old_(names.too_old) {
    std::string reason;
    for (const std::string& path : candidates(names)) {
        handle_ = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
        if (handle_ != nullptr) {
            file_ = path;
            return;
        }
        // A file that is there and does not load says more than one that is not.
        const std::string said = dlerror();
        if (reason.empty() || (is_absent(reason) && !is_absent(said))) {
            reason = said;
        }
    }
    throw CudaUnavailable(title_ + " cannot be loaded (" + reason + "). " + names.remedy);
}

void* Library::address(const char* symbol) const {
    void* const found = dlsym(handle_, symbol);
    if (found == nullptr) {
        throw CudaUnavailable(title_ + " " + file_ + " has no " + symbol + ": " + too_old_);
    }
    return found;
}

std::string Library::path() const {
    return file_;
}

void set_search_folders(std::vector<std::string> folders) {
    SearchFolders& search = search_folders();
    const std::scoped_lock lock(search.mutex);
    search.folders = std::move(folders);
}

std::vector<std::string> toolkit_files(const std::string& stem) {
    constexpr int kOldest = 12;
    constexpr int kNewest = 13;
    std::vector<std::string> files;
    for (int major = kNewest; major >= kOldest; --major) {
        // A toolkit runs on the drivers of its own major and of later ones.
        if (major <= driver_version() / 1000) {
            files.push_back(stem + ".so." + std::to_string(major));
        }
    }
    return files;
}

}  // namespace spdl::cuda
