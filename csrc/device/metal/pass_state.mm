// The rows of a pass, numbered by session for the kernels.
#import "device/metal/pass_state.h"

#include <algorithm>

#include "device/metal/require.h"

namespace muser::metal {

void PassState::begin(std::span<const Row> pass_rows, PassKind kind) {
    require(!pass_rows.empty() && pass_rows.size() <= workspace.spec().max_rows, "more rows than the workspace has room for");
    rows = planned = pass_rows;
    workspace.use_link(0);
    few = kind == PassKind::decode && rows.size() <= kMaxDecodeRows;
    sessions.clear();
    RowInfo *info = host<RowInfo>(workspace.rows());
    for (const Row &row : rows) {
        const auto *kv = static_cast<const KvBuffer *>(row.kv);
        const auto known = std::find(sessions.begin(), sessions.end(), kv);
        const auto session = static_cast<uint32_t>(known - sessions.begin());
        if (known == sessions.end())
            sessions.push_back(kv);
        require(sessions.size() <= kMaxSessions, "rows of more sessions than a kernel has planes");
        *info++ = {row.token, row.position, session};
    }
}

void PassState::begin_link(std::span<const Row> chain, size_t link) {
    if (link == 0)
        begin(chain, PassKind::decode);
    require(chain.size() <= kMostLinks && sessions.size() == 1, "a chain is one session's");
    few = true;
    rows = chain.subspan(link, 1);
    workspace.use_link(link);
}

} // namespace muser::metal
