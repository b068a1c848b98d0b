#include "gpu/video_reader.h"

#include <algorithm>

#include "av/frame_arrays.h"
#include "core/errors.h"
#include "core/parallel.h"
#include "image/plan/image_plan.h"

namespace spdl {
namespace {

// FFmpeg's, and the common, choice for videos that do not say.
constexpr int kUsualMatrix = 6;

// The container may give colours that the stream does not.
VideoColors colors_of(const cuda::VideoFormat& format, const AVCodecParameters& parameters) {
    VideoColors colors{kUsualMatrix, (format.signal & 8U) != 0 || parameters.color_range == AVCOL_RANGE_JPEG};
    for (const int matrix : {static_cast<int>(format.matrix), static_cast<int>(parameters.color_space)}) {
        if (is_known_matrix(matrix)) {
            colors.matrix = matrix;
            break;
        }
    }
    return colors;
}

}  // namespace

GpuVideoReader::GpuVideoReader(std::shared_ptr<const Stream> stream, const VideoGeometry& geometry, Target target)
    : stream_(std::move(stream)),
      geometry_(geometry),
      target_(std::move(target)),
      codec_(nvdec_codec(*stream_, target_.remedy)),
      packets_(stream_) {
    cuda::nvcuvid();
    const cuda::ContextScope scope(target_.device);
    cuda::check(cuda::driver().create_event(&copied_, cuda::kQuietEvent), "cuEventCreate", "preparing a video decoder");
}

GpuVideoReader::~GpuVideoReader() {
    if (!cuda::is_usable()) {
        return;
    }
    try {
        const cuda::ContextScope scope(target_.device);
        abandon();
        cuda::driver().destroy_event(copied_);
        if (decoder_ && target_.reuse) {
            keep_decoder(std::move(decoder_));
        }
        decoder_.reset();
    } catch (const cuda::CudaError&) {
        // The process is ending, or a failure has ended everything on the device.
    }
}

// Ends all that is under way. A decoder that has failed is destroyed.
void GpuVideoReader::abandon() {
    drop_parser();
    if (mapped_) {
        // The memory that the frame is copied to must not go before the copy is done.
        const bool done = cuda::driver().wait_for_stream(target_.stream) == cuda::Status::kSuccess;
        if (!decoder_->unmap_quietly(*std::exchange(mapped_, std::nullopt)) || !done) {
            decoder_.reset();
        }
    }
    if (error_) {
        decoder_.reset();
        error_ = nullptr;
    }
    chunks_.clear();
}

void GpuVideoReader::restart() {
    const cuda::ContextScope scope(target_.device);
    abandon();
    packets_.flush([](const cuda::VideoPacket& /*packet*/) {});
}

void GpuVideoReader::drop_parser() noexcept {
    if (parser_ != nullptr) {
        cuda::nvcuvid().destroy_parser(parser_);
        parser_ = nullptr;
    }
}

void GpuVideoReader::begin() {
    cuda::VideoParserOptions options;
    options.codec = codec_;
    // The sequence callback says how many there are.
    options.max_decode_surfaces = 1;
    const AVRational base = stream_->time_base;
    options.clock_rate = base.num == 1 && base.den > 0 ? static_cast<unsigned>(base.den) : 0;
    // A few pictures are decoded before the first is read.
    options.max_display_delay = 2;
    options.user = this;
    options.on_sequence = &on_sequence;
    options.on_decode = &on_decode;
    options.on_show = &on_show;
    cuda::check(cuda::nvcuvid().create_parser(&parser_, &options), "cuvidCreateVideoParser", "reading video packets");
}

void GpuVideoReader::decode(const PacketList& packets) {
    window_ = packets.window;
    for (const PacketPtr& packet : packets.packets) {
        check_interrupt();
        decode(*packet);
    }
}

void GpuVideoReader::decode(const AVPacket& packet) {
    const cuda::ContextScope scope(target_.device);
    if (error_) {
        std::rethrow_exception(error_);
    }
    if (parser_ == nullptr) {
        begin();
    }
    packets_.add(packet, [this](const cuda::VideoPacket& each) { parse(each); });
}

void GpuVideoReader::end() {
    const cuda::ContextScope scope(target_.device);
    if (parser_ == nullptr) {
        return;
    }
    packets_.flush([this](const cuda::VideoPacket& each) { parse(each); });
    parse({cuda::kEndOfStream, 0, nullptr, 0});
    return_frame();
    drop_parser();
}

void GpuVideoReader::parse(cuda::VideoPacket packet) {
    const cuda::Status status = cuda::nvcuvid().parse(parser_, &packet);
    if (error_) {
        std::rethrow_exception(error_);
    }
    cuda::check(status, "cuvidParseVideoData", "reading video packets");
}

template <typename Work>
int GpuVideoReader::guarded(const Work& work) noexcept {
    if (error_) {
        return 0;
    }
    try {
        return work();
    } catch (...) {
        error_ = std::current_exception();
        return 0;
    }
}

int GpuVideoReader::on_sequence(void* self, cuda::VideoFormat* format) noexcept {
    auto* const reader = static_cast<GpuVideoReader*>(self);
    return reader->guarded([&] { return reader->take_format(*format); });
}

int GpuVideoReader::on_decode(void* self, cuda::VideoPicture* picture) noexcept {
    auto* const reader = static_cast<GpuVideoReader*>(self);
    return reader->guarded([&] {
        if (!reader->decoder_) {
            throw MediaError("the video does not begin with the header of a sequence");
        }
        reader->decoder_->decode(picture);
        return 1;
    });
}

int GpuVideoReader::on_show(void* self, cuda::ShownPicture* picture) noexcept {
    auto* const reader = static_cast<GpuVideoReader*>(self);
    return reader->guarded([&] {
        if (picture != nullptr) {
            reader->show(*picture);
        }
        return 1;
    });
}

int GpuVideoReader::take_format(const cuda::VideoFormat& format) {
    const cuda::VideoDecoderOptions options = options_for(format, geometry_, target_.remedy);
    form_.surface = {static_cast<int>(options.target_width), static_cast<int>(options.target_height)};
    form_.shown = geometry_.whole ? Size{format.shown.right - format.shown.left, format.shown.bottom - format.shown.top}
                                  : form_.surface;
    form_.bits = options.surface == cuda::SurfaceFormat::kP016 ? 8 + format.luma_bits_above_8 : 8;
    form_.colors = colors_of(format, *stream_->parameters);
    // The frames of the decoder go before it changes.
    return_frame();
    if (decoder_ && decoder_->serves(target_.device, options)) {
        decoder_->reconfigure(options);
    } else {
        decoder_.reset();
        decoder_ = take_decoder(target_.device, options, target_.reuse);
    }
    return static_cast<int>(decoder_->options().decode_surfaces);
}

bool GpuVideoReader::is_wanted(std::int64_t time) const {
    if (choice_) {
        return choice_(time);
    }
    return !is_before(time, stream_->time_base, window_) && !is_after(time, stream_->time_base, window_);
}

void GpuVideoReader::show(const cuda::ShownPicture& picture) {
    if (!is_wanted(picture.timestamp)) {
        return;
    }
    const cuda::DevicePointer place = next_place();
    const MappedFrame frame = decoder_->map(picture, target_.stream);
    try {
        check_whole(picture);
        cuda::Copy2d copy;
        copy.from = frame.address;
        copy.from_pitch = frame.pitch;
        copy.to = place;
        copy.to_pitch = static_cast<std::size_t>(form_.surface.width) * form_.sample_bytes();
        copy.width_bytes = copy.to_pitch;
        copy.height = static_cast<std::size_t>(form_.surface.height);
        const char* const what = "copying a decoded frame";
        cuda::check(cuda::driver().copy_2d(&copy, target_.stream), "cuMemcpy2DAsync", what);
        // The plane of chroma follows the plane of luma in both.
        copy.from += std::size_t{frame.pitch} * copy.height;
        copy.to += copy.to_pitch * copy.height;
        copy.height /= 2;
        cuda::check(cuda::driver().copy_2d(&copy, target_.stream), "cuMemcpy2DAsync", what);
        return_frame();
        cuda::check(cuda::driver().record_event(copied_, target_.stream), "cuEventRecord", what);
    } catch (...) {
        cuda::driver().wait_for_stream(target_.stream);
        decoder_->unmap_quietly(frame);
        throw;
    }
    mapped_ = frame;
    chunks_.back().times.push_back(picture.timestamp);
}

void GpuVideoReader::check_whole(const cuda::ShownPicture& picture) const {
    if (decoder_->is_damaged(picture.index)) {
        throw MediaError("cannot decode the " + stream_->describe() + " at " +
                         std::to_string(stream_->seconds(picture.timestamp)) +
                         " s: NVDEC says that the frame is damaged. FFmpeg's decoders keep what they make of such a "
                         "frame, with decode_config(decoder_options={\"err_detect\": \"ignore_err\"})");
    }
}

cuda::DevicePointer GpuVideoReader::next_place() {
    const bool same = chunks_.empty() || (choice_ ? chunks_.back().form == form_ : chunks_.back().form.fits(form_));
    if (!same && !choice_) {
        throw MediaError("the size of the frames changes from " + chunks_.back().form.describe() + " to " +
                         form_.describe() + ": give both scale_width and scale_height");
    }
    if (chunks_.empty() || !same || chunks_.back().times.size() == chunk_frames_) {
        chunks_.push_back({target_.allocate(form_.bytes() * chunk_frames_), form_, {}});
    }
    return chunks_.back().place(chunks_.back().times.size());
}

void GpuVideoReader::return_frame() {
    if (mapped_) {
        cuda::check(cuda::driver().wait_for_event(copied_), "cuEventSynchronize", "copying a decoded frame");
        const MappedFrame frame = *std::exchange(mapped_, std::nullopt);
        decoder_->unmap(frame);
    }
}

std::vector<FrameChunk> GpuVideoReader::take(bool all) {
    const cuda::ContextScope scope(target_.device);
    return_frame();
    std::vector<FrameChunk> taken = std::move(chunks_);
    chunks_.clear();
    if (!all && !taken.empty() && taken.back().times.size() < chunk_frames_) {
        chunks_.push_back(std::move(taken.back()));
        taken.pop_back();
    }
    return taken;
}

FrameChunk join(std::vector<FrameChunk> chunks, const GpuVideoReader::Target& target) {
    if (chunks.size() == 1) {
        return std::move(chunks.front());
    }
    FrameChunk joined;
    joined.form = chunks.front().form;
    for (const FrameChunk& chunk : chunks) {
        joined.times.insert(joined.times.end(), chunk.times.begin(), chunk.times.end());
    }
    const std::size_t bytes = joined.form.bytes();
    joined.memory = target.allocate(bytes * joined.times.size());
    const cuda::ContextScope scope(target.device);
    Workspace workspace(target.device, target.stream);
    workspace.begin();
    cuda::Copy2d copy;
    copy.to = joined.memory.pointer;
    copy.width_bytes = static_cast<std::size_t>(joined.form.surface.width) * joined.form.sample_bytes();
    copy.from_pitch = copy.width_bytes;
    copy.to_pitch = copy.width_bytes;
    for (const FrameChunk& chunk : chunks) {
        copy.from = chunk.memory.pointer;
        copy.height = bytes * chunk.times.size() / copy.width_bytes;
        cuda::check(cuda::driver().copy_2d(&copy, target.stream), "cuMemcpy2DAsync", "joining frames");
        copy.to += bytes * chunk.times.size();
    }
    workspace.finish();
    return joined;
}

namespace {

constexpr VideoGeometry kPictures{.crop = {}, .scale = {}, .deep = true, .whole = true};

// A video begins with the header of its sequence.
constexpr int kMostForHeader = 64;

}  // namespace

GpuFramePicker::GpuFramePicker(std::shared_ptr<const Stream> stream, PacketFeed& feed, const VideoIndex& index,
                               const GpuVideoReader::Target& target)
    : stream_(std::move(stream)), feed_(feed), index_(index), losses_(stream_), reader_(stream_, kPictures, target) {
    if (!index_.timed()) {
        throw MediaError(stream_->describe() +
                         ": the file does not say when each frame is shown, so frames have to be " +
                         "counted, and NVDEC does not tell which it leaves out; " + target.remedy);
    }
    reader_.set_chunk(kTogether);
    reader_.set_choice([this](std::int64_t time) { return wants(time); });
    // Opening a video shows whether the GPU decodes it.
    go_to(0);
    for (int packets = 0; packets < kMostForHeader && !reader_.has_format() && decode_next(); ++packets) {
    }
}

// Notes what is shown. Frames after the last wanted one are kept, too, for the next call, since a few come at once.
bool GpuFramePicker::wants(std::int64_t time) {
    const std::size_t frame = index_.frame_at(time);
    if (frame == index_.num_frames()) {
        return false;  // It is shown before the first frame.
    }
    passed_ = frame;
    return index_.time(frame) == time &&
           (wanted_.empty() || std::ranges::binary_search(wanted_, frame) || frame > wanted_.back());
}

void GpuFramePicker::pick(const std::vector<std::size_t>& frames, const Take& take) {
    wanted_ = frames;
    try {
        for (std::size_t at = 0; at < frames.size(); ++at) {
            take(frames[at], decode(frames[at], frames[last_of_run(at)]));
        }
    } catch (...) {
        next_ = kNone;
        shown_.clear();
        throw;
    }
}

// Returns the last of a few wanted frames from `first` on that are decoded without a jump.
std::size_t GpuFramePicker::last_of_run(std::size_t first) const {
    std::size_t last = first;
    while (last + 1 < wanted_.size() && last + 1 < first + kTogether &&
           index_.start(wanted_[last + 1], 0) <= index_.position(wanted_[last])) {
        ++last;
    }
    return last;
}

GpuFrame GpuFramePicker::decode(std::size_t frame, std::size_t last) {
    shown_.erase(shown_.begin(), shown_.lower_bound(frame));
    bool found = shown_.contains(frame);
    const bool ahead = next_ != kNone && (passed_ == kNone || passed_ < frame);
    if (!found && ahead && index_.start(frame, 0) <= next_) {
        found = decode_from_here(frame, last);
    }
    // A frame that a file marks as a key frame may not be one. Begin at ever earlier ones.
    constexpr int kKeysBack[] = {0, 1, 4};
    for (std::size_t i = 0; !found && i < std::size(kKeysBack); ++i) {
        const std::size_t start = index_.start(frame, kKeysBack[i]);
        go_to(start);
        found = decode_from_here(frame, last);
        if (start == 0) {
            break;
        }
    }
    if (!found && index_.start(frame, kKeysBack[2]) != 0) {
        go_to(0);
        found = decode_from_here(frame, last);
    }
    const std::string where = std::to_string(index_.seconds(frame, *stream_)) + " s";
    if (!found) {
        throw MediaError("cannot decode the " + stream_->describe() + ": its packets announce a frame " +
                         std::to_string(frame) + " at " + where + ", but NVDEC makes none of them");
    }
    Shown shown = std::move(shown_.extract(frame).mapped());
    if (shown.doubtful) {
        throw MediaError("cannot decode the " + stream_->describe() + " at " + where +
                         ": frames that it builds on are missing");
    }
    return std::move(shown.frame);
}

void GpuFramePicker::go_to(std::size_t position) {
    shown_.clear();
    losses_.reset();
    reader_.restart();
    feed_.seek(position);
    next_ = position;
    passed_ = kNone;
}

void GpuFramePicker::collect() {
    for (const FrameChunk& chunk : reader_.take(true)) {
        for (std::size_t i = 0; i < chunk.times.size(); ++i) {
            const GpuFrame frame{{chunk.memory.owner, chunk.place(i)}, chunk.form};
            shown_.emplace(index_.frame_at(chunk.times[i]), Shown{frame, losses_.is_doubtful(chunk.times[i])});
        }
    }
}

// Decodes the next packet, or finishes the frames of those before. Returns whether there was one.
bool GpuFramePicker::decode_next() {
    check_interrupt();
    const PacketPtr packet = feed_.next();
    if (!packet) {
        reader_.end();
        next_ = kNone;
        return false;
    }
    next_ = feed_.position() + 1;
    losses_.see(*packet);
    reader_.decode(*packet);
    return true;
}

// Returns whether the frame comes. Frames up to `last` are decoded with it.
bool GpuFramePicker::decode_from_here(std::size_t frame, std::size_t last) {
    while ((passed_ == kNone || passed_ < last) && decode_next()) {
    }
    collect();
    const bool found = shown_.contains(frame);
    if (!found) {
        next_ = kNone;
    }
    return found;
}

namespace {

using cuda::kernels::Byte;

constexpr std::size_t kPitch = 256;

std::size_t round_up(std::size_t value) {
    return (value + kPitch - 1) / kPitch * kPitch;
}

}  // namespace

GpuPictureArray::GpuPictureArray(const LoadOptions& options, int rotation, std::size_t count, const Target& target)
    : options_(options),
      rotation_(options.upright ? rotation : 0),
      count_(count),
      target_(target),
      kernels_(cuda::load_kernels(target.device, target.kernel_folder)) {}

void GpuPictureArray::add(GpuFrame frame, std::size_t row) {
    const std::size_t bytes = 2 * rgb_bytes(frame.form.shown);
    const bool full = waiting_.size() == kMostFrames || (waiting_.size() + 1) * bytes > kMostWorkspace;
    if (!waiting_.empty() && (full || waiting_.front().frame.form != frame.form)) {
        convert();
    }
    waiting_.push_back({std::move(frame), row});
}

void GpuPictureArray::begin(Size canvas) {
    if (memory_.pointer == 0) {
        canvas_ = canvas;
        row_bytes_ = options_.format.image_bytes(canvas);
        shape_ = options_.format.shape(count_, canvas);
        memory_ = target_.allocate(row_bytes_ * count_);
    }
    if (canvas != canvas_) {
        throw_size_change(canvas_, canvas);
    }
}

// Converts the frames that wait, and returns when that is done.
void GpuPictureArray::convert() {
    const FrameForm& form = waiting_.front().frame.form;
    const ImageShape shape{form.shown, turned_by(rotation_)};
    const ImagePlan plan = plan_image(shape, options_, {whole(shape.upright()), false});
    begin(plan.canvas);
    const ResizeWork work(plan, tables_);
    const std::size_t count = waiting_.size();
    const std::size_t pixel_bytes = round_up(rgb_bytes(form.shown));
    const std::size_t bytes = pixel_bytes + round_up(work.between_bytes());

    const cuda::ContextScope scope(target_.device);
    Workspace workspace(target_.device, target_.stream);
    const std::size_t table_bytes = count * work.table_bytes() + count * (sizeof(cuda::kernels::YuvImage) +
                                                                          UploadArena::kAlignment + CanvasWork::kBytes);
    const cuda::DevicePointer pixels = workspace.allocate(count * bytes);
    const cuda::DevicePointer tables = workspace.allocate(table_bytes);
    UploadArena arena(tables);
    CanvasWork canvases(options_.format, canvas_, upload_values(workspace, options_.format));
    std::vector<cuda::kernels::YuvImage> images;
    for (std::size_t i = 0; i < count; ++i) {
        const Waiting& each = waiting_[i];
        auto* const here = reinterpret_cast<Byte*>(pixels + i * bytes);
        images.push_back({reinterpret_cast<const Byte*>(each.frame.memory.pointer), here});
        canvases.add(arena, work, here, form.shown.width, here + pixel_bytes,
                     reinterpret_cast<Byte*>(memory_.pointer + each.row * row_bytes_));
    }
    cuda::kernels::PixelsArguments to_pixels{arena.add(images),
                                             form.shown.width,
                                             form.shown.height,
                                             form.surface.width,
                                             form.surface.height,
                                             yuv_factors(form.colors, form.bits),
                                             order_of(options_.format.channels())};
    canvases.place(arena);
    workspace.upload(arena.bytes(), tables, table_bytes);
    cuda::launch(kernels_.convert_to_pixels, form.shown.width, form.shown.height, static_cast<int>(count), &to_pixels,
                 target_.stream, "convert_to_pixels");
    canvases.run(kernels_, target_.stream);
    workspace.finish();
    waiting_.clear();
}

void GpuPictureArray::copy(std::size_t from, std::size_t to) {
    if (!waiting_.empty()) {
        convert();
    }
    const cuda::ContextScope scope(target_.device);
    Workspace workspace(target_.device, target_.stream);
    workspace.begin();
    cuda::Copy2d copy;
    copy.from = memory_.pointer + from * row_bytes_;
    copy.to = memory_.pointer + to * row_bytes_;
    copy.width_bytes = row_bytes_;
    copy.from_pitch = row_bytes_;
    copy.to_pitch = row_bytes_;
    copy.height = 1;
    cuda::check(cuda::driver().copy_2d(&copy, target_.stream), "cuMemcpy2DAsync", "repeating a picture");
    workspace.finish();
}

cuda::DeviceMemory GpuPictureArray::take() {
    if (!waiting_.empty()) {
        convert();
    }
    return std::move(memory_);
}

}  // namespace spdl
