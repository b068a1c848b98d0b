#include "archive/tar_walk.h"

namespace spdl {

bool TarWalk::next(Bytes& content) {
    for (;;) {
        const std::size_t left = archive_.size() - place_;
        if (left < TarParser::kBlock) {
            parser_.take_end(left);
            return false;
        }
        const TarParser::Step step = parser_.take_header(archive_.data() + place_);
        if (step.kind == TarParser::Kind::kEnd) {
            return false;
        }
        place_ += TarParser::kBlock;
        if (step.size + step.padding > archive_.size() - place_) {
            parser_.fail_truncated(archive_.size() - place_);
        }
        content = archive_.subspan(place_, step.size);
        place_ += step.size + step.padding;
        if (step.kind == TarParser::Kind::kMeta) {
            parser_.take_meta(content);
        } else if (step.kind == TarParser::Kind::kMember) {
            return true;
        }
    }
}

}  // namespace spdl
