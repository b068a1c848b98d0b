#pragma once

#include <string>
#include <vector>

namespace spdl::cuda {

// A shared library of NVIDIA's, which is loaded by its name when it is first needed and stays until the process ends.
class Library {
  public:
    // What a library is called, and what to say of it where it is missing.
    struct Names {
        const char* title;                 // In messages.
        const char* replacement;           // An environment variable that names another file, for our tests.
        std::vector<std::string> files;    // In the order in which they are tried,
        std::vector<const char*> folders;  // beside the places of the system, in these parts of the search folders.
        const char* remedy;                // Where it comes from.
        const char* too_old;               // What to do if it lacks a function.
    };

    // Throws CudaUnavailable, which says where it was looked for and what to do.
    explicit Library(const Names& names);

    // Finds a function. Throws CudaUnavailable if the library lacks it.
    template <typename Function>
    void find(const char* symbol, Function& function) const {
        function = reinterpret_cast<Function>(address(symbol));
    }

    // Returns the file that was loaded.
    [[nodiscard]] std::string path() const;

  private:
    [[nodiscard]] void* address(const char* symbol) const;

    void* handle_ = nullptr;
    std::string file_;
    std::string title_;
    std::string too_old_;
};

// The folders of this Python's nvidia-* packages, and of wheels that have some of NVIDIA's libraries inside. They are
// searched behind the places of the system.
void set_search_folders(std::vector<std::string> folders);

// Returns the names of a library of the CUDA toolkit for the majors that the driver serves, newest first: "libX.so.13",
// "libX.so.12".
std::vector<std::string> toolkit_files(const std::string& stem);

}  // namespace spdl::cuda
