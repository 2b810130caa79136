package etcdbackend

import (
	"context"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
)

func TestBadOptionsAreReportedBeforeAnythingIsOpened(t *testing.T) {
	dead, cancel := context.WithCancel(t.Context())
	cancel()
	for _, o := range []*Options{{Root: "a/"}, {Root: "\xff"}, {Layout: 7}} {
		_, err := Dial(dead, DialConfig{Endpoints: []string{"127.0.0.1:1"}}, o)
		assert.ErrorIs(t, err, session.ErrInvalidOptions)
	}
	for _, c := range []DialConfig{
		{},
		{Endpoints: []string{""}},
		{Endpoints: []string{"a:1"}, Username: "u"},
		{Endpoints: []string{"a:1"}, Password: "s3cret"},
		{Endpoints: []string{"a:1"}, CertFile: "c"},
		{Endpoints: []string{"a:1"}, Timeout: -1},
		{Endpoints: []string{"http://a:1"}, CAFile: "ca"},
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
