package etcdbackend

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"

	"github.com/fairlock/fairlock/session/driver"
)

// version is a version of etcd: major, minor and patch.
type version [3]int

// versionTime is for how long Open waits for the version when it has its lease.
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
func (v version) before(o version) bool {
	for i := range v {
		if v[i] != o[i] {
			return v[i] < o[i]
		}
	}
	return false
}

// supported reports whether v is a version that this package works with. Older
// servers answer a progress request beside the channel of the events (etcd's pull
// request 15220), so the answer proves no order; see order.
func (v version) supported() bool {
	if v[0] == 3 && v[1] == 4 {
		return !v.before(version{3, 4, 25})
	}
	return !v.before(version{3, 5, 8})
}

// askVersion asks a member for its version while a lease is granted. The returned
// function waits for the answer. Its error wraps driver.ErrRefused if the server
// is too old; known is false where the version cannot be learned.
func (b *backend) askVersion(ctx context.Context) (wait func() (known bool, err error)) {
	if !b.plain {
		return func() (bool, error) { return false, nil }
	}
	ctx, cancel := context.WithCancel(ctx)
	said := make(chan string, 1)
	go func() { // ends with ctx
		resp, err := pb.NewMaintenanceClient(b.client.ActiveConnection()).
			Status(ctx, &pb.StatusRequest{}, grpc.WaitForReady(true))
		if err != nil {
			said <- ""
			return
		}
		said <- resp.Version
	}()
	return func() (known bool, err error) {
		late := time.AfterFunc(versionTime, cancel)
		name := <-said
		late.Stop()
		cancel()
		v, known := parseVersion(name)
		if known && !v.supported() {
			return true, fmt.Errorf("%w: the server is etcd %s, and 3.4.25, 3.5.8 or a newer one is needed", driver.ErrRefused, name)
		}
		return known, nil
	}
}
