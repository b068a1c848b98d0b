#include "av/frame_reader.h"

#include <algorithm>
#include <array>
#include <cstdlib>

#include "av/coded_pictures.h"
#include "av/samples.h"
#include "core/errors.h"
#include "core/parallel.h"

namespace spdl {

void FrameClock::see(const AVPacket& packet) {
    if (!stream_->counts_samples) {
        return;
    }
    if (packet_end_ && packet.pts > *packet_end_) {
        gaps_.insert(packet.pts);
    }
    packet_end_ = packet.pts + packet.duration;
}

std::int64_t FrameClock::place(const AVFrame& frame) {
    std::int64_t found = rescale_time(frame.pts, stream_->time_base, {1, frame.sample_rate});
    if (next_ && is_counted(*stream_)) {
        found = *next_;
    }
    if (stream_->counts_samples && !keep_damaged_) {
        check(found, frame);
    }
    next_ = found + frame.nb_samples;
    return found;
}

void FrameClock::check(std::int64_t place, const AVFrame& frame) {
    const auto refuse = [&](const std::string& what) {
        throw MediaError("cannot tell which sample is when in the " + stream_->describe() + ": at " +
                         std::to_string(stream_->seconds(frame.pts)) + " s " + what +
                         ". Load all of it, without a window: load_audio gives what there is");
    };
    const int rate = stream_->parameters->sample_rate;
    if (frame.sample_rate != rate) {
        refuse("its rate changes from " + std::to_string(rate) + " to " + std::to_string(frame.sample_rate) + " Hz");
    }
    const bool gap = gaps_.erase(place) > 0;
    if (next_ && place != *next_ && !gap) {
        const std::int64_t more = *next_ - place;
        refuse("a packet decodes to " + std::to_string(std::abs(more)) + " samples " + (more > 0 ? "more" : "fewer") +
               " than it says");
    }
}

void FrameClock::reset() {
    next_.reset();
    packet_end_.reset();
    gaps_.clear();
}

FrameFilters::FrameFilters(const AVFrame& first, AVRational time_base, AVRational frame_rate,
                           const std::string& description)
    : description_(description) {
    split(first, time_base, frame_rate, description);
    if (!stage_) {
        first_.emplace(first, time_base, frame_rate, description);
    }
}

// Makes the stage and what is before it, if the description is one that is better taken apart.
void FrameFilters::split(const AVFrame& first, AVRational time_base, AVRational frame_rate,
                         const std::string& description) {
    auto parts = parse_scale_description(description);
    if (!parts || !ScaleStage::may_take(first, *parts)) {
        return;
    }
    parts_ = *std::move(parts);
    if (!parts_.before.empty()) {
        first_.emplace(first, time_base, frame_rate, parts_.before, description);
        time_base = first_->time_base();
        frame_rate = first_->frame_rate();
    }
    stage_.emplace(first, time_base, frame_rate, parts_, description);
    // A stage with nothing around it is a graph of all filters.
    const bool alone = parts_.before.empty() && parts_.after.empty();
    if (!alone && !stage_->may_be_fast(first)) {
        stage_.reset();
    }
}

bool FrameFilters::takes(const AVFrame& frame) const {
    return first_ ? first_->takes(frame) : stage_->takes(frame);
}

void FrameFilters::add(FramePtr frame) {
    ends_ = ends_ || !frame;
    if (first_) {
        first_->add(std::move(frame));
    } else {
        waiting_ = std::move(frame);
    }
}

// Returns the next frame to scale.
FramePtr FrameFilters::next() {
    return first_ ? first_->get() : std::exchange(waiting_, nullptr);
}

FramePtr FrameFilters::get() {
    if (!stage_) {
        return first_->get();
    }
    if (parts_.after.empty()) {
        FramePtr frame = next();
        return frame ? stage_->run(std::move(frame)) : nullptr;
    }
    for (;;) {
        if (after_) {
            if (FramePtr finished = after_->get()) {
                return finished;
            }
            if (after_->full()) {
                return nullptr;
            }
        }
        if (FramePtr frame = next()) {
            scaled_to_ = frame->pts;
            add_after(stage_->run(std::move(frame)));
        } else if (ends_ && after_) {
            end_after();
        } else {
            return nullptr;
        }
    }
}

void FrameFilters::add_after(FramePtr made) {
    if (!after_) {
        after_.emplace(*made, stage_->time_base(), stage_->frame_rate(), parts_.after, description_);
    }
    after_->add(std::move(made));
}

// Afterwards the filters after the scaling are full.
void FrameFilters::end_after() {
    if (first_) {
        // As the filter fps tells those after it.
        after_->end(scaled_to_ + 1);
    } else {
        after_->add(nullptr);
    }
}

AVRational FrameFilters::time_base() const {
    return stage_ ? stage_->time_base() : first_->time_base();
}

FramePicker::FramePicker(const std::shared_ptr<const Stream>& stream, const DecodeOptions& options, PacketFeed& feed,
                         const VideoIndex& index)
    : decoder_(index.settled(stream), options), feed_(feed), index_(index) {}

void FramePicker::pick(const std::vector<std::size_t>& frames, const Take& take) {
    try {
        for (const std::size_t frame : frames) {
            take(frame, decode(frame));
        }
    } catch (...) {
        next_ = kNone;
        throw;
    }
}

FramePtr FramePicker::decode(std::size_t frame) {
    const bool ahead = next_ != kNone && (passed_ == kNone || passed_ < frame);
    if (ahead && index_.start(frame, 0) <= next_) {
        if (FramePtr decoded = decode_from_here(frame)) {
            return decoded;
        }
    }
    // A frame that a file marks as a key frame may not be one. Begin at ever earlier ones.
    for (const int keys_back : {0, 1, 4}) {
        const std::size_t start = index_.start(frame, keys_back);
        go_to(start);
        if (FramePtr decoded = decode_from_here(frame)) {
            return decoded;
        }
        if (start == 0) {
            break;
        }
    }
    if (index_.start(frame, 4) != 0) {
        go_to(0);
        if (FramePtr decoded = decode_from_here(frame)) {
            return decoded;
        }
    }
    throw MediaError("cannot decode the " + decoder_.stream().describe() + ": its packets announce a frame " +
                     std::to_string(frame) + " at " + std::to_string(index_.seconds(frame, decoder_.stream())) +
                     " s, but the decoder makes none of them");
}

void FramePicker::go_to(std::size_t position) {
    decoder_.reset();
    feed_.seek(position);
    next_ = position;
    passed_ = kNone;
}

std::size_t FramePicker::frame_of(const AVFrame& decoded) {
    if (index_.timed()) {
        return index_.frame_at(decoded.pts);
    }
    return passed_ == kNone ? 0 : passed_ + 1;
}

// Returns null if the frame does not come.
FramePtr FramePicker::decode_from_here(std::size_t frame) {
    const std::int64_t wanted = index_.time(frame);
    for (bool ended = false;;) {
        while (FramePtr decoded = decoder_.get()) {
            const bool exact = !index_.timed() || decoded->pts == wanted;
            const std::size_t found = frame_of(*decoded);
            if (found == index_.num_frames()) {
                continue;  // It is shown before the first frame.
            }
            passed_ = found;
            if (found == frame && exact) {
                decoded->pts = wanted;
                decoder_.check(*decoded);
                return decoded;
            }
            if (found >= frame && index_.timed()) {
                next_ = kNone;
                return nullptr;
            }
        }
        if (ended) {
            next_ = kNone;
            return nullptr;
        }
        check_interrupt();
        const PacketPtr packet = feed_.next();
        ended = !packet;
        if (packet) {
            next_ = feed_.position() + 1;
            // Frames that no other depends on need not be decoded unless they are wanted.
            const bool needed = !index_.timed() || time_of(*packet) >= wanted;
            decoder_.add(packet.get(), needed);
        } else {
            decoder_.add(nullptr);
        }
    }
}

namespace {

[[noreturn]] void raise_missing(std::size_t frame, std::size_t count) {
    throw MediaError("there is no frame " + std::to_string(frame) + ": the packets make " + std::to_string(count));
}

// If packets do not say when their frames are shown, only decoding all of them shows which are within the window.
std::vector<FramePtr> count_frames(const PacketList& packets, const std::vector<std::size_t>& wanted,
                                   const DecodeOptions& options) {
    FrameReader reader(packets.stream, options, "");
    reader.set_window(packets.window);
    std::vector<FramePtr> picked;
    std::vector<FramePtr> decoded;
    std::size_t count = 0;
    const auto pick = [&] {
        for (FramePtr& frame : decoded) {
            if (picked.size() < wanted.size() && wanted[picked.size()] == count) {
                picked.push_back(std::move(frame));
            }
            ++count;
        }
        decoded.clear();
    };
    for (const PacketPtr& packet : packets.packets) {
        if (picked.size() == wanted.size()) {
            return picked;
        }
        check_interrupt();
        reader.add(*packet, decoded);
        pick();
    }
    reader.flush(decoded);
    pick();
    if (picked.size() < wanted.size()) {
        raise_missing(wanted[picked.size()], count);
    }
    return picked;
}

std::vector<FramePtr> pick_frames(const PacketList& packets, const std::vector<std::size_t>& wanted,
                                  const DecodeOptions& options) {
    VideoIndex index = VideoIndex::of(packets);
    if (!index.timed()) {
        return count_frames(packets, wanted, options);
    }
    ListFeed feed(packets);
    if (may_lack_beginning(index, *packets.stream, is_key(*packets.packets.front(), *packets.stream))) {
        index = without_lost(index, feed, packets.stream, options);
    }
    if (!wanted.empty() && wanted.back() >= index.num_frames()) {
        raise_missing(wanted.back(), index.num_frames());
    }
    FramePicker picker(packets.stream, options, feed, index);
    std::vector<FramePtr> picked;
    picker.pick(wanted, [&](std::size_t /*frame*/, FramePtr decoded) { picked.push_back(std::move(decoded)); });
    return picked;
}

}  // namespace

FrameList sample_frames(const PacketList& packets, const std::vector<std::size_t>& frames, const DecodeOptions& options,
                        const std::string& filters) {
    FrameList found{Medium::kVideo, pick_frames(packets, frames, options), packets.stream->time_base};
    if (!filters.empty()) {
        for (FramePtr& frame : found.frames) {
            frame = filter_frame(*frame, packets.stream->time_base, filters);
        }
    }
    return found;
}

namespace {

// A second of silence in the form of other sound.
FramePtr silence_like(const AVFrame& sound) {
    FramePtr silence = make_frame();
    silence->format = sound.format;
    silence->sample_rate = sound.sample_rate;
    silence->nb_samples = sound.sample_rate;
    require_memory(av_channel_layout_copy(&silence->ch_layout, &sound.ch_layout) >= 0 &&
                   av_frame_get_buffer(silence.get(), 0) >= 0);
    av_samples_set_silence(silence->extended_data, 0, silence->nb_samples, sound.ch_layout.nb_channels,
                           static_cast<AVSampleFormat>(sound.format));
    return silence;
}

FramePtr copy_samples(const AVFrame& frame, AVRational time_base, int begin, int end) {
    FramePtr part = make_frame();
    part->format = frame.format;
    part->sample_rate = frame.sample_rate;
    part->nb_samples = end - begin;
    part->flags = frame.flags;
    part->decode_error_flags = frame.decode_error_flags;
    require_memory(av_channel_layout_copy(&part->ch_layout, &frame.ch_layout) >= 0 &&
                   av_frame_get_buffer(part.get(), 0) >= 0);
    av_samples_copy(part->extended_data, frame.extended_data, 0, begin, end - begin, frame.ch_layout.nb_channels,
                    static_cast<AVSampleFormat>(frame.format));
    part->pts = frame.pts + av_rescale_q(begin, {1, frame.sample_rate}, time_base);
    return part;
}

}  // namespace

std::size_t FrameList::bytes() const {
    std::size_t size = 0;
    for (const FramePtr& frame : frames) {
        for (const AVBufferRef* const plane : frame->buf) {
            size += plane == nullptr ? 0 : plane->size;
        }
    }
    return size;
}

FrameList FrameList::clone() const {
    FrameList copy{medium, {}, time_base, form};
    copy.frames.reserve(frames.size());
    for (const FramePtr& frame : frames) {
        copy.frames.push_back(reference(*frame));
    }
    return copy;
}

FrameReader::FrameReader(std::shared_ptr<const Stream> stream, const DecodeOptions& options, std::string filters)
    : decoder_(stream, options),
      clock_(std::move(stream), decoder_.keeps_damaged()),
      filters_(std::move(filters)),
      time_base_(decoder_.stream().time_base) {}

void FrameReader::set_stream(const std::shared_ptr<const Stream>& stream) {
    decoder_.set_stream(stream);
    clock_ = FrameClock(stream, decoder_.keeps_damaged());
}

AVRational FrameReader::time_base() const {
    return time_base_;
}

void FrameReader::add(const AVPacket& packet, std::vector<FramePtr>& frames) {
    clock_.see(packet);
    try {
        decoder_.add(&packet);
    } catch (const MediaError&) {
        // Sound that is before the window is decoded for what builds on it only, and may begin in the middle of a
        // frame.
        const Stream& stream = decoder_.stream();
        if (stream.medium == Medium::kVideo || packet.pts == AV_NOPTS_VALUE ||
            !is_before(packet.pts + packet.duration, stream.time_base, window_)) {
            throw;
        }
    }
    decode(frames);
}

void FrameReader::flush(std::vector<FramePtr>& frames, std::size_t most) {
    // Also if decoding fails: what follows is another piece.
    struct Reset {
        FrameReader& reader;
        ~Reset() {
            reader.decoder_.reset();
            reader.clock_.reset();
            reader.chain_.reset();
            reader.filtered_to_ = AV_NOPTS_VALUE;
            reader.last_.reset();
            reader.next_place_.reset();
        }
    };
    const Reset reset{*this};
    decoder_.add(nullptr);
    decode(frames);
    if (fills_ && last_ && window_.end) {
        fill(sample_at(*window_.end, last_->sample_rate), *last_, frames);
    }
    end_filters(frames, most);
}

void FrameReader::decode(std::vector<FramePtr>& frames) {
    while (FramePtr frame = decoder_.get()) {
        if (cut(frame, frames)) {
            decoder_.check(*frame);
            first_shown_ = first_shown_ == AV_NOPTS_VALUE ? frame->pts : std::min(first_shown_, frame->pts);
            filter(std::move(frame), frames);
        }
    }
}

bool FrameReader::cut(FramePtr& frame, std::vector<FramePtr>& frames) {
    if (decoder_.stream().medium == Medium::kAudio) {
        return cut_sound(frame, frames);
    }
    const AVRational time_base = decoder_.stream().time_base;
    return !is_before(frame->pts, time_base, window_) && !is_after(frame->pts, time_base, window_);
}

bool FrameReader::cut_sound(FramePtr& frame, std::vector<FramePtr>& frames) {
    const std::int64_t place = clock_.place(*frame);
    const std::int64_t size = frame->nb_samples;
    const auto bound = [&](const std::optional<Moment>& moment, std::int64_t otherwise) {
        return moment ? std::clamp<std::int64_t>(sample_at(*moment, frame->sample_rate) - place, 0, size) : otherwise;
    };
    const std::int64_t begin = bound(window_.start, 0);
    const std::int64_t end = bound(window_.end, size);
    if (fills_) {
        if (last_ && last_->sample_rate != frame->sample_rate) {
            next_place_.reset();
        }
        last_ = reference(*frame);
    }
    if (begin >= end) {
        return false;
    }
    if (fills_) {
        fill(place + begin, *frame, frames);
        next_place_ = place + end;
    }
    if (begin > 0 || end < size) {
        frame = copy_samples(*frame, decoder_.stream().time_base, static_cast<int>(begin), static_cast<int>(end));
    }
    return true;
}

// Puts silence up to a sample into the filters.
void FrameReader::fill(std::int64_t end, const AVFrame& like, std::vector<FramePtr>& frames) {
    const AVRational unit{1, like.sample_rate};
    if (!next_place_ && !window_.start) {
        return;
    }
    std::int64_t place = next_place_ ? *next_place_ : sample_at(*window_.start, like.sample_rate);
    if (place >= end) {
        return;
    }
    // If the times of a sound jump by years, the silence is not wanted.
    constexpr std::int64_t kLongestSeconds = 24 * 60 * 60;
    if (end - place > kLongestSeconds * like.sample_rate) {
        throw MediaError("there is a gap of " + std::to_string((end - place) / like.sample_rate) +
                         " s in the sound at " + std::to_string(place / like.sample_rate) +
                         " s, and at most a day is filled with silence: read what is before and after it");
    }
    const FramePtr second = silence_like(like);
    while (place < end) {
        // They share one memory.
        FramePtr silence = reference(*second);
        silence->nb_samples = static_cast<int>(std::min<std::int64_t>(end - place, like.sample_rate));
        silence->pts = rescale_time(place, unit, decoder_.stream().time_base);
        place += silence->nb_samples;
        filter(std::move(silence), frames);
    }
    next_place_ = end;
}

// Filters that make a constant rate repeat a frame until the next one is shown, and a few bytes of a file can say that
// this is years later. The filter trim ends them itself.
void FrameReader::check_jump(const AVFrame& frame) const {
    constexpr std::array kFilling{"fps", "framerate", "minterpolate"};
    constexpr double kMostRepeats = 100'000;
    const Stream& stream = decoder_.stream();
    const AVRational rate = chain_->frame_rate();
    if (stream.medium != Medium::kVideo || rate.num <= 0 || rate.den <= 0 || frame.pts == AV_NOPTS_VALUE ||
        filtered_to_ == AV_NOPTS_VALUE || filters_.find("trim") != filters_.npos ||
        std::ranges::none_of(kFilling, [&](const char* name) { return filters_.find(name) != filters_.npos; })) {
        return;
    }
    const double seconds = stream.seconds(frame.pts) - stream.seconds(filtered_to_);
    if (seconds * av_q2d(rate) > kMostRepeats) {
        throw MediaError("the times of the " + stream.describe() + " jump by " + std::to_string(seconds) + " s after " +
                         std::to_string(stream.seconds(filtered_to_)) + " s, and \"" + filters_ +
                         "\" would fill that with more than 100000 repeats of a frame: read what is before and what " +
                         "is after it, or ask for fewer frames per second");
    }
}

void FrameReader::filter(FramePtr frame, std::vector<FramePtr>& frames) {
    if (filters_.empty()) {
        append(std::move(frame), decoder_.stream().time_base, frames);
        return;
    }
    if (chain_ && !chain_->takes(*frame)) {
        // As the ffmpeg command does: the filters begin again with the new form.
        end_filters(frames, kAll);
    }
    if (!chain_) {
        const Stream& stream = decoder_.stream();
        chain_.emplace(*frame, stream.time_base, stream.frame_rate, filters_);
        if (!filtered_) {
            time_base_ = chain_->time_base();
            filtered_ = true;
        }
        if (stream.medium == Medium::kAudio) {
            form_ = chain_->sound_form();
        }
    }
    check_jump(*frame);
    filtered_to_ = frame->pts;
    chain_->add(std::move(frame));
    // Filters such as loop make frames forever of one. Otherwise the frames that were made of it would be lost.
    constexpr int kMany = 1000;
    for (int count = 0; FramePtr finished = chain_->get(); ++count) {
        append(std::move(finished), chain_->time_base(), frames);
        if (count > kMany) {
            check_interrupt();
        }
    }
}

// Appends a finished frame. Filters of frames of another form may count time in another unit than the first did.
void FrameReader::append(FramePtr finished, AVRational unit, std::vector<FramePtr>& frames) const {
    if (finished->pts != AV_NOPTS_VALUE && av_cmp_q(unit, time_base_) != 0) {
        finished->pts = rescale_time(finished->pts, unit, time_base_);
    }
    frames.push_back(std::move(finished));
}

void FrameReader::end_filters(std::vector<FramePtr>& frames, std::size_t most) {
    if (chain_) {
        chain_->add(nullptr);
        // Some filters, such as apad, go on forever.
        while (frames.size() < most) {
            check_interrupt();
            FramePtr finished = chain_->get();
            if (!finished) {
                break;
            }
            append(std::move(finished), chain_->time_base(), frames);
        }
        chain_.reset();
        filtered_to_ = AV_NOPTS_VALUE;
    }
}

void FrameReader::check_beginning(const PacketList& packets) const {
    const Stream& stream = *packets.stream;
    if (stream.medium == Medium::kAudio || !packets.window.start || first_shown_ == AV_NOPTS_VALUE) {
        return;
    }
    const std::vector<std::int64_t> times = packets.times(false);
    if (times.empty() || times.front() == AV_NOPTS_VALUE || first_shown_ <= times.front()) {
        return;
    }
    // Packets that were not found by a seek are all there are, from the beginning of a recording on.
    const AVPacket& first = *packets.packets.front();
    if (!is_key(first, stream) ||
        (time_of(first) != AV_NOPTS_VALUE && !is_before(time_of(first), stream.time_base, packets.window) &&
         time_of(first) > times.front())) {
        return;
    }
    throw MediaError("cannot decode the " + stream.describe() + ": its packets announce a frame at " +
                     std::to_string(stream.seconds(times.front())) + " s, but the decoder can begin at " +
                     std::to_string(stream.seconds(first_shown_)) +
                     " s only. Begin the window earlier, or use VideoReader, which finds a frame to begin at");
}

FrameList read_frames(const PacketList& packets, const DecodeOptions& options, const std::string& filters,
                      std::int64_t num_frames, bool fills_gaps) {
    FrameReader reader(packets.stream, options, filters);
    reader.set_window(packets.window);
    if (fills_gaps) {
        reader.fill_gaps();
    }
    std::vector<FramePtr> frames;
    const auto enough = [&] { return num_frames >= 0 && static_cast<std::int64_t>(frames.size()) >= num_frames; };
    for (const PacketPtr& packet : packets.packets) {
        check_interrupt();
        reader.add(*packet, frames);
        if (enough()) {
            break;
        }
    }
    if (!enough()) {
        reader.flush(frames, num_frames >= 0 ? static_cast<std::size_t>(num_frames) : FrameReader::kAll);
    }
    reader.check_beginning(packets);
    if (enough()) {
        frames.resize(static_cast<std::size_t>(num_frames));
    }
    FrameList list{reader.stream().medium, std::move(frames), reader.time_base()};
    if (list.frames.empty()) {
        list.form = reader.sound_form();
    }
    return list;
}

}  // namespace spdl
