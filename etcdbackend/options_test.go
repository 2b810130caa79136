package etcdbackend

import (
	"context"
	"crypto/tls"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
)

func TestBadOptionsAreReportedBeforeAnythingIsOpened(t *testing.T) {
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	for _, o := range []*Options{
		{Root: "a/"},
		{Root: "/a"},
		{Root: "a//b"},
		{Root: "a/../b"},
		{Root: "prod,b:2379/prod"},
		{Root: "prod?label=x"},
		{Root: "prod\n"},
		{Root: "\xff"},
		{Layout: 7},
	} {
		_, err := Dial(dead, DialConfig{Endpoints: []string{"127.0.0.1:1"}}, o)
		assert.ErrorIs(t, err, session.ErrInvalidOptions)
	}
	for _, c := range []DialConfig{
		{},
		{Endpoints: []string{""}},
		{Endpoints: []string{"a:1"}, Username: "u"},
		{Endpoints: []string{"a:1"}, Password: "s3cret"},
		{Endpoints: []string{"a:1"}, CertFile: "c"},
		{Endpoints: []string{"a:1"}, PasswordFile: "p"},
		{Endpoints: []string{"a:1"}, Username: "u", PasswordFile: "absent"},
		{Endpoints: []string{"a:1"}, Username: "u", Password: "s3cret", PasswordFile: "p"},
		{Endpoints: []string{"a:1"}, TLS: &tls.Config{MinVersion: tls.VersionTLS13}, ServerName: "x"},
		{Endpoints: []string{"a:1"}, Timeout: -1},
		{Endpoints: []string{"http://a:1"}, CAFile: "ca"},
		{Endpoints: []string{"a:1,b:1"}},
		{Endpoints: []string{"http://a:1,http://b:1"}},
		{Endpoints: []string{"a:1/prod"}},
		{Endpoints: []string{"http://a:1/prod"}},
		{Endpoints: []string{"http://a:1?x=y"}},
		{Endpoints: []string{"http://ops:s3cret@a:1"}},
		{Endpoints: []string{"ops:s3cret@a:1"}},
		{Endpoints: []string{"a:1", "https://b:1", "http://c:1"}},
		{Endpoints: []string{"a:1", "A:1"}},
		{Endpoints: []string{"etcd://a:1"}},
		{Endpoints: []string{" a:1"}},
		{Endpoints: []string{"a:99999"}},
		{Endpoints: []string{"unix://a,unix://b"}},
		{Endpoints: []string{"unix://a", "b:1"}},
		{Endpoints: []string{"a:1"}, CAFile: "absent"},
		{Endpoints: []string{"a:1"}, CertFile: "absent", KeyFile: "absent", Username: "u", Password: "s3cret"},
	} {
		_, err := Dial(dead, c, nil)
		assert.ErrorIs(t, err, session.ErrInvalidOptions)
		assert.NotContains(t, fmt.Sprint(err, c, &c, fmt.Sprintf("%#v %+v", c, c)), "s3cret")
	}
	_, err := NewBackend(nil, nil)
	require.Error(t, err)
}

// etcd's client takes the scheme of the first endpoint for all of them.
func TestTheSchemeOfAnEndpointCountsForAll(t *testing.T) {
	for _, c := range []struct{ endpoints, want []string }{
		{[]string{"a", "b:1"}, []string{"a:2379", "b:1"}},
		{[]string{"a:1", "https://b/"}, []string{"https://a:1", "https://b:2379"}},
		{[]string{"unix://a", "unix://b"}, []string{"unix://a", "unix://b"}},
	} {
		got, err := DialConfig{Endpoints: c.endpoints}.endpoints()
		require.NoError(t, err)
		assert.Equal(t, c.want, got)
	}
}
