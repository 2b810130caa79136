package etcd

import (
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/assert"
	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/session"
)

// idle are sessions that do nothing: renewals are all that is sent, and those of the sessions of
// one client come in one rhythm.
type idle struct {
	clients  [40]*lockClient
	renewals [40]atomic.Int64
}

// newIdle opens the sessions at the default TTL, ten for each client of all members.
func newIdle(t *testing.T, c *etcdtest.Cluster) *idle {
	d := &idle{}
	var client *clientv3.Client
	for i := range d.clients {
		if i%10 == 0 {
			client = c.Client(t)
		}
		d.clients[i] = newClient(t, "root", session.DefaultTTL)
		d.clients[i].opts.Session.Hooks.SessionRenewed = func(session.Event) { d.renewals[i].Add(1) }
		d.clients[i].open(t, client)
	}
	return d
}

// renewed blocks until each session has been renewed so many more times: more often than one that
// is not renewed lives for.
func (d *idle) renewed(t *testing.T) {
	const times = 4
	var least [len(d.renewals)]int64
	for i := range least {
		least[i] = d.renewals[i].Load() + times
	}
	for i := range least {
		hang.Until(t, func() bool { return d.renewals[i].Load() >= least[i] || len(d.clients[i].Lost()) > 0 }, "renewals of session %d", i)
	}
	for i, c := range d.clients {
		assert.Empty(t, c.Lost(), "session %d", i)
	}
}

// idleBesideALearner: one voter and one learner are the members of a cluster of one while its
// member is replaced. The learner refuses at once.
func idleBesideALearner(t *testing.T) {
	c := etcdtest.New(t, &etcdtest.Options{Learner: true, Processes: true})
	newIdle(t, c).renewed(t)
}

// idleBesideACutMember: requests that meet the cut member are not answered until it has noticed
// that it has no leader, and are refused from then on.
func idleBesideACutMember(t *testing.T) {
	c := etcdtest.New(t, &etcdtest.Options{Members: 3, Proxied: true, Processes: true})
	d := newIdle(t, c)
	c.Member(1).CutPeers()
	defer c.Member(1).HealPeers()
	d.renewed(t)
}
