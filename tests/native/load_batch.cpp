// Loads files into a batch by the code of the extension, with two backends more than the extension has.
// Usage: load_batch ON_ERROR BACKEND WIDTH HEIGHT THREADS OUTPUT FILE...   (BACKEND "": any)
//
// Writes the batch to OUTPUT, and prints its shape, what decoded each image, and what could not be loaded. Ends with 1
// and the reasons on standard error if ON_ERROR is "raise" and an image failed, or if all of them did.

#include <cstdlib>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "ffmpeg/ffmpeg_log.h"
#include "image/load/batch.h"
#include "media/decoder.h"

namespace spdl {

static void register_test_backends() {
    SPDL_REGISTER(device_backend);
    SPDL_REGISTER(raw_rgb_backend);
    register_backends();
}

namespace {

const Backend* backend_for(const std::string& name) {
    const Backend* const backend = find_backend(name);
    if (backend == nullptr && !name.empty()) {
        throw std::invalid_argument("there is no backend \"" + name + "\"");
    }
    return backend;
}

// As load_image_batch reads its on_error.
BatchOptions batch_options(const std::string& on_error, const std::string& backend, int threads) {
    BatchOptions options;
    options.decode.backend = backend_for(backend);
    options.decode.keep_damaged = on_error == "partial";
    options.keep_failed = on_error == "zero" || on_error == "partial";
    options.num_threads = threads;
    return options;
}

void print(const Batch& batch) {
    std::cout << "shape";
    for (const std::size_t side : batch.images.shape) {
        std::cout << ' ' << side;
    }
    for (const Backend* const backend : batch.backends) {
        std::cout << "\nbackend " << backend_name(backend);
    }
    for (const Failure& failure : batch.failures) {
        std::cout << "\nfailure " << failure.index << ' ' << failure.reason;
    }
    std::cout << '\n';
}

int run(const std::vector<std::string>& arguments) {
    if (arguments.size() < 7) {
        throw std::invalid_argument("usage: load_batch ON_ERROR BACKEND WIDTH HEIGHT THREADS OUTPUT FILE...");
    }
    install_log_callback();
    register_test_backends();
    const std::string& on_error = arguments[0];
    std::vector<ImageInput> inputs;
    for (std::size_t i = 6; i < arguments.size(); ++i) {
        inputs.push_back({arguments[i], {}});
    }
    LoadOptions options;
    options.target = {std::stoi(arguments[2]), std::stoi(arguments[3])};
    const Batch batch =
        load_batch(inputs, options, {}, batch_options(on_error, arguments[1], std::stoi(arguments[4])), nullptr);
    if (!batch.failures.empty() && (on_error == "raise" || batch.images.data == nullptr)) {
        for (const Failure& failure : batch.failures) {
            std::cerr << failure.index << ' ' << failure.reason << '\n';
        }
        return EXIT_FAILURE;
    }
    print(batch);
    std::ofstream output(arguments[5], std::ios::binary);
    output.write(reinterpret_cast<const char*>(batch.images.data), static_cast<std::streamsize>(batch.images.bytes()));
    return output ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace spdl

int main(int count, char** values) {
    try {
        return spdl::run({values + 1, values + count});
    } catch (const std::exception& error) {
        std::cerr << error.what() << '\n';
        return 2;
    }
}
