package etcdbackend

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fairlock/fairlock/session/driver"
)

// version is a version of etcd: major, minor and patch.
type version [3]int

// versionTime is for how long Open waits for the version.
const versionTime = time.Second

// parseVersion reads "3.5.8" or "3.6.0-rc.1". A server before a release does not
// count as older than the release.
func parseVersion(s string) (v version, ok bool) {
	s, _, _ = strings.Cut(s, "-")
	s, _, _ = strings.Cut(s, "+")
	parts := strings.Split(s, ".")
	if len(parts) != len(v) {
		return v, false
	}
	for i, p := range parts {
		n, err := strconv.Atoi(p)
		if err != nil || n < 0 {
			return v, false
		}
		v[i] = n
	}
	return v, true
}

// before reports whether v is older than o.
func (v version) before(o version) bool { return slices.Compare(v[:], o[:]) < 0 }

// supported reports whether v is a version that this package works with. Older
// servers answer a progress request beside the channel of the events (etcd's pull
// request 15220), so the answer proves no order; see order.
func (v version) supported() bool {
	if v[0] == 3 && v[1] == 4 {
		return !v.before(version{3, 4, 25})
	}
	return !v.before(version{3, 5, 8})
}

// checkVersion asks a member for its version, until one has been learned. The error
// wraps driver.ErrRefused if the server is too old; known is false where the version
// cannot be learned.
func (b *backend) checkVersion(ctx context.Context) (known bool, err error) {
	if !b.plain || b.supported.Load() {
		return b.plain, nil
	}
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	resp, err := statusOf(ctx, b.client.ActiveConnection())
	if err != nil {
		return false, nil // a permission may be missing, or the member does not answer
	}
	v, known := parseVersion(resp.Version)
	if known && !v.supported() {
		return true, fmt.Errorf("%w: the server is etcd %s; 3.4.25 or newer in the 3.4 series, or 3.5.8 or newer is required", driver.ErrRefused, resp.Version)
	}
	b.supported.Store(known)
	return known, nil
}
