#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <string>
#include <unordered_set>

#include "core/errors.h"
#include "core/file_parts.h"
#include "core/non_copyable.h"
#include "image/tiff/tiff.h"
#include "media/decoder.h"
#include "media/image_format.h"

namespace spdl {
namespace {

TiffLayout layout_of(Bytes bytes) {
    const ImageFormat format = image_format(bytes);
    if (format == ImageFormat::kUnknown) {
        throw MediaError("cannot read its pages: " + describe_unknown_format(bytes));
    }
    const std::optional<TiffLayout> layout = TiffLayout::of(bytes);
    if (!layout) {
        throw MediaError("cannot read its pages: only a TIFF has pages, and this is " +
                         std::string(format_name(format)) + ". Leave `pages` out for its first picture");
    }
    return *layout;
}

}  // namespace

std::vector<std::uint64_t> tiff_pages(Bytes bytes, std::size_t most) {
    std::vector<std::uint64_t> pages;
    std::unordered_set<std::uint64_t> known;
    std::uint64_t at = layout_of(bytes).first_directory(bytes);
    if (at == 0) {
        throw MediaError("cannot read the TIFF: it has no page");
    }
    while (at != 0 && pages.size() < most) {
        const std::optional<std::uint64_t> next = TiffDirectory::at(bytes, at)->next();
        if (!next) {
            throw MediaError("cannot read the TIFF: the directory of page " + std::to_string(pages.size()) +
                             " does not lie within the file, which may be truncated");
        }
        pages.push_back(at);
        known.insert(at);
        at = known.contains(*next) ? 0 : *next;
    }
    return pages;
}

namespace {

// Returns whether other pages follow the first one, which are more than smaller versions or masks.
bool has_more_pages(Bytes bytes) {
    constexpr std::size_t kMost = 8;
    constexpr std::uint32_t kBeside = FILETYPE_REDUCEDIMAGE | FILETYPE_MASK;
    try {
        const std::vector<std::uint64_t> pages = tiff_pages(bytes, kMost);
        return std::any_of(pages.begin() + 1, pages.end(), [&](std::uint64_t page) {
            return (TiffDirectory::at(bytes, page)->integer(TIFFTAG_SUBFILETYPE).value_or(0) & kBeside) == 0;
        });
    } catch (const MediaError&) {
        return false;  // The file is damaged behind its first page.
    }
}

std::size_t size_of(int count) {
    return static_cast<std::size_t>(count);
}

// The allocations of libtiff's own conversion.
class Conversion : NonCopyable {
  public:
    explicit Conversion(const TiffFile& file) {
        constexpr int kStopAtErrors = 1;
        char words[1024] = "";
        if (TIFFRGBAImageBegin(&image_, file.get(), kStopAtErrors, words) != 1) {
            file.fail(std::string("its colours cannot be converted: ") + words);
        }
        image_.orientation = ORIENTATION_TOPLEFT;
        image_.req_orientation = ORIENTATION_TOPLEFT;
    }
    ~Conversion() { TIFFRGBAImageEnd(&image_); }

    bool read(int top, int width, int rows, std::uint32_t* to) {
        image_.row_offset = top;
        image_.col_offset = 0;
        return TIFFRGBAImageGet(&image_, to, static_cast<std::uint32_t>(width), static_cast<std::uint32_t>(rows)) == 1;
    }

  private:
    TIFFRGBAImage image_;
};

}  // namespace

ImageShape TiffDecoder::open(const EncodedImage& image, const DemuxOptions& demux, const DecodeOptions& decode) {
    page_ = image.page;
    return PackedDecoder::open(image, demux, decode);
}

PackedShape TiffDecoder::describe(Bytes bytes, std::int64_t max_pixels) {
    file_.emplace(bytes, page_, max_pixels);
    max_pixels_ = max_pixels;
    picture_ = read_tiff_picture(*file_);
    check_source_size(picture_.size, "cannot decode the image: its size", max_pixels);
    chunks_ = find_chunks();
    check_tiff_data(*file_, picture_);
    return {.size = picture_.size,
            .format = picture_.format,
            .codec = "tiff",
            .more_pages = !page_ && has_more_pages(bytes)};
}

StoredIds TiffDecoder::show_ids() {
    constexpr int kBits[] = {1, 2, 4, 8, 16};
    const bool indices = picture_.colors == TiffColors::kPalette;
    const bool levels = picture_.colors == TiffColors::kGray && picture_.alpha == 0 && !picture_.inverted &&
                        picture_.numbers == TiffNumbers::kUnsigned &&
                        std::ranges::find(kBits, picture_.bits) != std::end(kBits);
    if (picture_.lossy || !(indices || levels)) {
        return {};
    }
    picture_.as_ids = true;
    picture_.alpha = 0;
    picture_.format = {1, picture_.bits == 16 ? 2 : 1};
    return {indices ? StoredIds::Kind::kIndices : StoredIds::Kind::kLevels, picture_.bits};
}

void TiffDecoder::forget() noexcept {
    file_.reset();
    chunk_.shrink();
    samples_.shrink();
}

Box TiffDecoder::decodable(int /*eighths*/, const Box& wanted) const {
    return {0, wanted.top, picture_.size.width, wanted.bottom};
}

TiffDecoder::Chunks TiffDecoder::find_chunks() const {
    TIFF* const tiff = file_->get();
    Chunks chunks;
    chunks.tiled = TIFFIsTiled(tiff) != 0;
    const auto sides = [&](std::uint32_t tag, int otherwise) {
        const auto most = static_cast<std::uint32_t>(chunks.tiled ? std::numeric_limits<int>::max() : otherwise);
        return static_cast<int>(std::min(file_->value<std::uint32_t>(tag, most), most));
    };
    tmsize_t row_bytes = 0;
    tmsize_t bytes = 0;
    if (chunks.tiled) {
        chunks.size = {sides(TIFFTAG_TILEWIDTH, 0), sides(TIFFTAG_TILELENGTH, 0)};
        row_bytes = TIFFTileRowSize(tiff);
        bytes = TIFFTileSize(tiff);
    } else {
        chunks.size = {picture_.size.width, sides(TIFFTAG_ROWSPERSTRIP, picture_.size.height)};
        row_bytes = TIFFScanlineSize(tiff);
        bytes = TIFFStripSize(tiff);
    }
    if (chunks.size.width <= 0 || chunks.size.height <= 0 || row_bytes <= 0 || bytes <= 0) {
        file_->fail(std::string("its ") + (chunks.tiled ? "tiles" : "strips") + " have no size");
    }
    const auto along = [](int side, int chunk) { return (std::int64_t{side} - 1) / chunk + 1; };
    const std::int64_t count = along(picture_.size.width, chunks.size.width) *
                               along(picture_.size.height, chunks.size.height) *
                               (picture_.planar ? picture_.samples : 1);
    // All of them may name the same few bytes of the file.
    if (bytes > most_tiff_bytes(max_pixels_) / count) {
        throw MediaError("cannot decode the TIFF: its " + std::string(chunks.tiled ? "tiles" : "strips") + " (" +
                         std::to_string(count) + " of " + std::to_string(bytes) + " bytes) are more than the " +
                         std::to_string(most_tiff_bytes(max_pixels_)) +
                         " bytes that are allowed; decode_config(max_pixels=...) allows more, if it is to be trusted");
    }
    chunks.row_bytes = static_cast<std::size_t>(row_bytes);
    chunks.bytes = static_cast<std::size_t>(bytes);
    const std::size_t samples = picture_.planar ? 1 : size_of(picture_.samples);
    const std::size_t expected = (size_of(chunks.size.width) * samples * size_of(picture_.bits) + 7) / 8;
    if (!picture_.by_libtiff &&
        (chunks.row_bytes != expected || chunks.bytes != chunks.row_bytes * size_of(chunks.size.height))) {
        file_->fail("its pixels do not lie in rows");
    }
    return chunks;
}

void TiffDecoder::decode_packed(const PackedRegion& region, std::uint8_t* to, std::size_t row_bytes) {
    const Chunks& chunks = chunks_;
    const Output output{region.box, to, row_bytes};
    if (picture_.by_libtiff) {
        convert(chunks, output);
    } else if (region.format.sample_bytes == 2) {
        decode_samples<std::uint16_t>(chunks, output);
    } else {
        decode_samples<std::uint8_t>(chunks, output);
    }
    if (file_->damaged()) {
        file_->fail("the data of a JPEG inside are damaged");
    }
}

std::uint8_t* TiffDecoder::Output::at(int x, int y, std::size_t pixel_bytes) const {
    return pixels + size_of(y - box.top) * row_bytes + size_of(x - box.left) * pixel_bytes;
}

void TiffDecoder::decode_chunk(const Chunks& chunks, int x, int y, int plane, std::uint8_t* to) {
    TIFF* const tiff = file_->get();
    const auto column = static_cast<std::uint32_t>(x);
    const auto row = static_cast<std::uint32_t>(y);
    const auto sample = static_cast<std::uint16_t>(plane);
    const auto size = static_cast<tmsize_t>(chunks.bytes);
    const std::uint32_t number =
        chunks.tiled ? TIFFComputeTile(tiff, column, row, 0, sample) : TIFFComputeStrip(tiff, row, sample);
    const int rows = chunks.tiled ? chunks.size.height : std::min(chunks.size.height, picture_.size.height - y);
    if (inflate_tiff(*file_, picture_, number, chunks.row_bytes, size_of(rows), to)) {
        return;
    }
    if (picture_.may_end_early) {
        std::memset(to, 0, chunks.bytes);
    }
    const tmsize_t read =
        chunks.tiled ? TIFFReadEncodedTile(tiff, number, to, size) : TIFFReadEncodedStrip(tiff, number, to, size);
    if (read < 0) {
        const std::uint32_t count = chunks.tiled ? TIFFNumberOfTiles(tiff) : TIFFNumberOfStrips(tiff);
        file_->fail(std::string(chunks.tiled ? "tile " : "strip ") + std::to_string(number + 1) + " of " +
                    std::to_string(count) + " is damaged, or missing");
    }
}

template <typename Sample>
void TiffDecoder::unpack(const Chunks& chunks, const Box& box, int x, int y, const Output& output) {
    const auto colors = size_of(picture_.color_samples());
    const std::size_t taken = colors + (picture_.alpha > 0 ? 1 : 0);
    const std::size_t width = size_of(box.size().width);
    const std::size_t pixel_bytes = size_of(picture_.format.channels) * sizeof(Sample);
    const std::size_t step = picture_.planar ? 1 : size_of(picture_.samples);
    const auto sample_of = [&](std::size_t index) { return index < colors ? index : size_of(picture_.alpha); };
    const auto row_at = [&](int row) { return chunk_.data() + size_of(row - y) * chunks.row_bytes; };
    const auto take = [&](int row, std::size_t index, Sample* to) {
        const std::size_t first = size_of(box.left - x) * step + (picture_.planar ? 0 : sample_of(index));
        const bool is_index = picture_.as_ids || (picture_.colors == TiffColors::kPalette && index == 0);
        take_tiff_samples(picture_, {row_at(row), first, step, width, is_index}, to + index, taken);
    };
    samples_.reserve(width * taken * sizeof(Sample) * (picture_.planar ? size_of(box.size().height) : 1));
    auto* const samples = reinterpret_cast<Sample*>(samples_.data());
    const auto make = [&](int row, const Sample* from) {
        make_tiff_pixels(picture_, from, width, reinterpret_cast<Sample*>(output.at(box.left, row, pixel_bytes)));
    };
    if (picture_.planar) {
        for (std::size_t index = 0; index < taken; ++index) {
            decode_chunk(chunks, x, y, static_cast<int>(sample_of(index)), chunk_.data());
            for (int row = box.top; row < box.bottom; ++row) {
                take(row, index, samples + size_of(row - box.top) * width * taken);
            }
        }
        for (int row = box.top; row < box.bottom; ++row) {
            make(row, samples + size_of(row - box.top) * width * taken);
        }
        return;
    }
    decode_chunk(chunks, x, y, 0, chunk_.data());
    const bool bytes = picture_.bits == 8 && taken == step && sizeof(Sample) == 1;
    for (int row = box.top; row < box.bottom; ++row) {
        if (bytes) {
            make(row, reinterpret_cast<const Sample*>(row_at(row)) + size_of(box.left - x) * step);
            continue;
        }
        for (std::size_t index = 0; index < taken; ++index) {
            take(row, index, samples);
        }
        make(row, samples);
    }
}

template <typename Sample>
void TiffDecoder::decode_samples(const Chunks& chunks, const Output& output) {
    const Size size = picture_.size;
    const bool plain = picture_.bits == 8 * sizeof(Sample) && picture_.samples == picture_.format.channels &&
                       (picture_.colors == TiffColors::kGray || picture_.colors == TiffColors::kRgb) &&
                       !picture_.inverted && !picture_.multiplied && !picture_.planar && !chunks.tiled &&
                       output.row_bytes == chunks.row_bytes && picture_.numbers == TiffNumbers::kUnsigned;
    int bottom = 0;
    for (int y = output.box.top / chunks.size.height * chunks.size.height; y < output.box.bottom; y = bottom) {
        bottom = y + std::min(chunks.size.height, size.height - y);
        int right = 0;
        for (int x = output.box.left / chunks.size.width * chunks.size.width; x < output.box.right; x = right) {
            right = x + std::min(chunks.size.width, size.width - x);
            const Box chunk{x, y, right, bottom};
            const Box box = common(chunk, output.box);
            if (plain && box == chunk) {
                Chunks rows = chunks;
                rows.bytes = chunks.row_bytes * size_of(bottom - y);
                decode_chunk(rows, x, y, 0, output.at(x, y, 0));
                continue;
            }
            chunk_.reserve(chunks.bytes);
            unpack<Sample>(chunks, box, x, y, output);
        }
    }
}

void TiffDecoder::convert(const Chunks& chunks, const Output& output) {
    constexpr std::size_t kSamples = 3;
    const Size size = picture_.size;
    Conversion conversion(*file_);
    chunk_.reserve(sizeof(std::uint32_t) * size_of(size.width) * size_of(std::min(chunks.size.height, size.height)));
    auto* const pixels = reinterpret_cast<std::uint32_t*>(chunk_.data());
    for (int top = output.box.top / chunks.size.height * chunks.size.height; top < output.box.bottom;) {
        const int rows = std::min(chunks.size.height, size.height - top);
        if (!conversion.read(top, size.width, rows, pixels)) {
            file_->fail("the strip or tile of row " + std::to_string(top) + " is damaged, or missing");
        }
        const int end = top + rows;
        for (int y = std::max(top, output.box.top); y < std::min(end, output.box.bottom); ++y) {
            const std::uint32_t* from = pixels + size_of(y - top) * size_of(size.width) + size_of(output.box.left);
            std::uint8_t* to = output.at(output.box.left, y, kSamples);
            for (int x = output.box.left; x < output.box.right; ++x, ++from, to += kSamples) {
                to[0] = static_cast<std::uint8_t>(TIFFGetR(*from));
                to[1] = static_cast<std::uint8_t>(TIFFGetG(*from));
                to[2] = static_cast<std::uint8_t>(TIFFGetB(*from));
            }
        }
        top = end;
    }
}

extern const Backend libtiff_backend;
const Backend libtiff_backend{"libtiff", "decodes TIFF only, without FFmpeg's options", make_decoder<TiffDecoder>};

}  // namespace spdl
