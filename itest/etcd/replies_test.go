package etcd

import (
	"testing"

	"github.com/fairlock/fairlock/itest/both"
)

func repliesCut(t *testing.T) {
	c, _, _ := shared(t)
	s := etcdHarness(c).Service(t)
	client := s.Client(t)
	both.RepliesAreCutBehindTheRequest(t, s, client, client.(*etcdClient).Reset) //nolint:forcetypeassert // see etcdService
}
