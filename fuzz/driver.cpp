// Fuzzes the target that it is linked with. It changes inputs at random, keeps those that reach new code, and changes
// them further. Any compiler builds it that has AddressSanitizer and -fsanitize-coverage=trace-pc; this file itself is
// compiled without the latter.
//
// Usage: PROGRAM CORPUS [--only ENDING[,ENDING...]] [--inputs N] [--seconds S] [--seed N] [--keep FOLDER]

#include <sanitizer/asan_interface.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <exception>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "target.h"

namespace {

namespace fs = std::filesystem;
using spdl::fuzz::Input;

constexpr std::size_t kPlaces = std::size_t{1} << 16;
constexpr std::size_t kMaxInput = std::size_t{1} << 16;
constexpr std::size_t kMaxPool = 4000;
constexpr unsigned kSecondsPerInput = 20;  // In processor time, because machines stall.

// The places in the code that the current input has reached, by the hash of their addresses, and those that any input
// has reached.
std::array<std::uint8_t, kPlaces> reached;
std::array<std::uint8_t, kPlaces> known;

// The input that runs now, for the report of a fault.
const Input* current = nullptr;

void save_current() {
    if (current != nullptr) {
        const std::string name = "fault-" + std::to_string(getpid()) + ".bin";
        std::ofstream file(name, std::ios::binary);
        file.write(reinterpret_cast<const char*>(current->data()), static_cast<std::streamsize>(current->size()));
        file.close();
        std::fprintf(stderr, "the input is in %s\n", name.c_str());
    }
}

void set_alarm(unsigned seconds) {
    const itimerval time{{}, {static_cast<time_t>(seconds), 0}};
    setitimer(ITIMER_PROF, &time, nullptr);
}

void on_alarm(int /*signal*/) {
    std::fprintf(stderr, "an input takes more than %u seconds\n", kSecondsPerInput);
    save_current();
    _exit(1);
}

struct Options {
    fs::path corpus;
    std::string only;  // Endings of the names of seeds: "jpg,png". Empty: all.
    std::uint64_t inputs = 0;
    double seconds = 0;
    std::uint64_t seed = 1;
    fs::path keep;
};

Options parse(int count, char** arguments) {
    Options options;
    for (int index = 1; index < count; ++index) {
        const std::string_view name = arguments[index];
        if (!name.starts_with("--")) {
            options.corpus = name;
            continue;
        }
        const std::string value = index + 1 < count ? arguments[++index] : "";
        if (name == "--only") {
            options.only = value;
        } else if (name == "--inputs") {
            options.inputs = std::stoull(value);
        } else if (name == "--seconds") {
            options.seconds = std::stod(value);
        } else if (name == "--seed") {
            options.seed = std::stoull(value);
        } else if (name == "--keep") {
            options.keep = value;
        } else {
            std::fprintf(stderr, "unknown option %s\n", arguments[index - 1]);
            std::exit(2);
        }
    }
    if (options.corpus.empty() || (options.inputs == 0 && options.seconds <= 0)) {
        std::fputs(
            "usage: PROGRAM CORPUS [--only ENDING[,ENDING...]] [--inputs N] [--seconds S] [--seed N] "
            "[--keep FOLDER]\n",
            stderr);
        std::exit(2);
    }
    return options;
}

// Returns whether the file's name ends in one of the endings, which commas separate, or whether there are none.
bool is_chosen(const fs::path& path, const std::string& only) {
    std::string ending = path.extension().string();
    ending.replace(0, 1, ",");
    return only.empty() || ("," + only + ",").find(ending + ",") != std::string::npos;
}

std::vector<Input> read_corpus(const fs::path& folder, const std::string& only) {
    std::vector<fs::path> paths;
    for (const auto& entry : fs::recursive_directory_iterator(folder)) {
        if (entry.is_regular_file() && is_chosen(entry.path(), only)) {
            paths.push_back(entry.path());
        }
    }
    // The order is the same everywhere, so that a seed means something.
    std::sort(paths.begin(), paths.end());
    std::vector<Input> inputs;
    for (const fs::path& path : paths) {
        std::ifstream file(path, std::ios::binary);
        inputs.emplace_back(std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>());
    }
    return inputs;
}

class Mutator {
  public:
    explicit Mutator(std::uint64_t seed) : random_(seed) {}

    std::size_t below(std::size_t limit) { return limit == 0 ? 0 : random_() % limit; }

    void change(Input& input, const Input& other) {
        const std::size_t steps = std::size_t{1} << below(3);
        for (std::size_t step = 0; step < steps; ++step) {
            change_once(input, other);
        }
        if (input.size() > kMaxInput) {
            input.resize(kMaxInput);
        }
        if (below(4) != 0) {
            spdl::fuzz::mend(input);
        }
    }

  private:
    void change_once(Input& input, const Input& other) {
        if (input.empty()) {
            input.push_back(static_cast<std::uint8_t>(below(256)));
            return;
        }
        const std::size_t place = below(input.size());
        const std::size_t length = 1 + below(std::min<std::size_t>(input.size() - place, 1 + below(600)));
        const auto begin = input.begin() + static_cast<std::ptrdiff_t>(place);
        const auto end = begin + static_cast<std::ptrdiff_t>(length);
        switch (below(10)) {
            case 0:
                input[place] ^= static_cast<std::uint8_t>(1 << below(8));
                break;
            case 1:
                input[place] = static_cast<std::uint8_t>(below(256));
                break;
            case 2:
                number(input, place);
                break;
            case 3:
                digits(input, place);
                break;
            case 4:
                input.erase(begin, end);
                break;
            case 5: {
                const Input piece(begin, end);
                const auto into = input.begin() + static_cast<std::ptrdiff_t>(below(input.size() + 1));
                input.insert(into, piece.begin(), piece.end());
                break;
            }
            case 6:
                std::fill(begin, end, static_cast<std::uint8_t>(below(2) * 255));
                break;
            case 7:
                if (below(4) == 0) {
                    input.resize(place);
                }
                break;
            case 8: {
                const Input piece(begin, end);
                const std::size_t target = below(input.size());
                std::copy_n(piece.begin(), std::min(piece.size(), input.size() - target),
                            input.begin() + static_cast<std::ptrdiff_t>(target));
                break;
            }
            default:
                if (!other.empty()) {
                    const std::size_t from = below(other.size());
                    const std::size_t size = std::min({other.size() - from, input.size() - place, length});
                    std::copy_n(other.begin() + static_cast<std::ptrdiff_t>(from), size, begin);
                }
        }
    }

    // Returns one of the numbers at which programs go wrong, of 1 to 8 bytes.
    void number(Input& input, std::size_t place) {
        constexpr std::array<std::uint64_t, 12> kNumbers = {
            0,
            1,
            0x7f,
            0x80,
            0xffff,
            0x7fffffff,
            0x80000000,
            0xffffffff,
            0x7fffffffffffffff,
            0x8000000000000000,
            ~std::uint64_t{0},
            ~std::uint64_t{0} - 15,
        };
        const std::uint64_t value = below(3) == 0 ? input.size() + below(9) - 4 : kNumbers[below(kNumbers.size())];
        const std::size_t width = std::min<std::size_t>(std::size_t{1} << below(4), input.size() - place);
        std::memcpy(input.data() + place, &value, width);
    }

    void digits(Input& input, std::size_t place) {
        const std::size_t width = std::min<std::size_t>(1 + below(12), input.size() - place);
        for (std::size_t index = 0; index < width; ++index) {
            input[place + index] = static_cast<std::uint8_t>('0' + below(10));
        }
    }

    std::mt19937_64 random_;
};

class Campaign {
  public:
    explicit Campaign(Options options) : options_(std::move(options)), mutator_(options_.seed) {}

    void run() {
        for (const Input& seed : read_corpus(options_.corpus, options_.only)) {
            // All seeds are kept, even those that reach nothing new: changes of them may.
            try_input(seed);
            pool_.push_back(seed);
        }
        if (pool_.empty()) {
            std::fprintf(stderr, "there is no such file in %s\n", options_.corpus.c_str());
            std::exit(2);
        }
        const std::size_t seeds = pool_.size();
        count_ = passed_ = 0;
        while (!is_over()) {
            // Half of the time it is one of the seeds, which are sound.
            Input input = pool_[mutator_.below(mutator_.below(2) == 0 ? seeds : pool_.size())];
            mutator_.change(input, pool_[mutator_.below(pool_.size())]);
            if (try_input(input) && pool_.size() < kMaxPool) {
                pool_.push_back(std::move(input));
            }
        }
        std::printf(
            "%llu inputs in %.1f s (%.1f s of the processor), %.1f %% past the header; %zu places in the "
            "code reached; %zu seeds, %zu kept\n",
            static_cast<unsigned long long>(count_), elapsed(), static_cast<double>(std::clock()) / CLOCKS_PER_SEC,
            100.0 * static_cast<double>(passed_) / static_cast<double>(count_),
            static_cast<std::size_t>(std::count(known.begin(), known.end(), 1)), seeds, pool_.size() - seeds);
        if (!options_.keep.empty()) {
            keep(seeds);
        }
    }

  private:
    [[nodiscard]] double elapsed() const {
        return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
    }

    [[nodiscard]] bool is_over() const {
        return (options_.inputs > 0 && count_ >= options_.inputs) ||
               (options_.seconds > 0 && elapsed() >= options_.seconds);
    }

    // Returns whether the input has reached something new.
    bool try_input(const Input& input) {
        reached.fill(0);
        current = &input;
        set_alarm(kSecondsPerInput);
        try {
            passed_ += spdl::fuzz::run(input) ? 1 : 0;
        } catch (const std::exception& error) {
            std::fprintf(stderr, "an exception that is no answer to bad input: %s\n", error.what());
            save_current();
            _exit(1);
        }
        set_alarm(0);
        current = nullptr;
        ++count_;
        bool is_new = false;
        for (std::size_t place = 0; place < kPlaces; ++place) {
            is_new = is_new || reached[place] > known[place];
            known[place] |= reached[place];
        }
        return is_new;
    }

    // Returns, besides the seeds, the smallest of the new inputs that together reach what all of them do.
    void keep(std::size_t seeds) {
        fs::create_directories(options_.keep);
        known.fill(0);
        for (std::size_t index = 0; index < seeds; ++index) {
            try_input(pool_[index]);
        }
        std::sort(pool_.begin() + static_cast<std::ptrdiff_t>(seeds), pool_.end(),
                  [](const Input& one, const Input& other) { return one.size() < other.size(); });
        for (std::size_t index = seeds; index < pool_.size(); ++index) {
            if (try_input(pool_[index])) {
                std::ofstream file(options_.keep / std::to_string(index - seeds), std::ios::binary);
                file.write(reinterpret_cast<const char*>(pool_[index].data()),
                           static_cast<std::streamsize>(pool_[index].size()));
            }
        }
    }

    Options options_;
    Mutator mutator_;
    std::vector<Input> pool_;
    std::uint64_t count_ = 0;
    std::uint64_t passed_ = 0;
    std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace

// The linker defines it.
extern "C" const char __executable_start;

// The compiler's code calls it at every branch of the fuzzed code.
extern "C" void __sanitizer_cov_trace_pc() {
    // The address counts from the program's beginning, which differs from run to run.
    const std::uintptr_t place = reinterpret_cast<std::uintptr_t>(__builtin_return_address(0)) -
                                 reinterpret_cast<std::uintptr_t>(&__executable_start);
    reached[(place ^ place >> 16) % kPlaces] = 1;
}

int main(int count, char** arguments) {
    __asan_set_death_callback(save_current);
    std::signal(SIGPROF, on_alarm);
    Campaign(parse(count, arguments)).run();
}
