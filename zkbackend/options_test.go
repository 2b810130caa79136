package zkbackend

import (
	"crypto/tls"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/session"
)

func TestBadOptionsAreNamed(t *testing.T) {
	for want, o := range map[string]Options{
		"does not begin with a slash": {Root: "locks"},
		`"/locks/" has an empty part`: {Root: "/locks/"},
		`"//locks" has an empty part`: {Root: "//locks"},
		`has a part ".."`:             {Root: "/a/../b"},
		"goes on with another server": {Root: "/prod,b:2181/prod"},
		"goes on with parameters":     {Root: "/prod?label=x"},
		"is a URL":                    {Root: "/zk://a/prod"},
		"begins or ends with a space": {Root: "/prod "},
		"a character that ZooKeeper":  {Root: "/a\x00b"},
		"at most 512":                 {Root: "/" + strings.Repeat("x", 512)},
		"no Layout(7)":                {Layout: 7},
		"no Proof(9)":                 {Proof: 9},
		"TickTime":                    {TickTime: -1},
		"at most 596h31m23.647s":      {Session: session.Options{TTL: 30 * 24 * time.Hour}},
		"ACL is empty":                {ACL: []zk.ACL{}},
		"no Scheme":                   {Auth: []Auth{{}}},
		"exclude each other":          {TLS: &tls.Config{MinVersion: tls.VersionTLS13}, CAFile: "x"},
		"read the CA: open /absent":   {CAFile: "/absent"},
		"a certificate and its key":   {CertFile: "x"},
		"password: open /absent":      {Auth: []Auth{DigestFileAuth("u", "/absent")}},
	} {
		_, err := NewBackend([]string{"localhost"}, &o)
		require.ErrorIs(t, err, session.ErrInvalidOptions, want)
		assert.ErrorContains(t, err, want)
	}
	for _, o := range []*Options{nil, {}, {Root: "/"}, {Root: "/a/b%"}, {Layout: LayoutKazoo, Proof: ProofQuorum}} {
		_, err := NewBackend([]string{"localhost"}, o)
		require.NoError(t, err)
	}
}

func TestServersAreChecked(t *testing.T) {
	got, err := checkServers([]string{"zk1", "zk2:2182", "[::1]"})
	require.NoError(t, err)
	assert.Equal(t, []string{"zk1:2181", "zk2:2182", "[::1]:2181"}, got)

	for _, bad := range [][]string{
		nil,
		{""},
		{"zk1:2181/chroot"},
		{"zk1:2181,zk2:2181"},
		{"zk1,zk2"},
		{"a b"},
		{" a:1"},
		{":2181"},
		{"zk1:"},
		{"zk1:0"},
		{"a:b:c"},
		{"a:b"},
		{"zk://a"},
		{"::1"},
		{"a", "a:2181"},
		{"ops:hunter2@a"},
	} {
		_, err := NewBackend(bad, nil)
		require.ErrorIs(t, err, session.ErrInvalidOptions, "%q", bad)
		assert.NotContains(t, err.Error(), "hunter2")
	}
	_, err = NewBackend([]string{"zk1:2181/chroot"}, nil)
	assert.ErrorContains(t, err, "Options.Root")
}

func TestPasswordsAreNotPrinted(t *testing.T) {
	a := DigestAuth("u", "secret")
	for _, format := range []string{"%v", "%+v", "%#v", "%s"} {
		assert.NotContains(t, fmt.Sprintf(format, a), "secret")
		assert.NotContains(t, fmt.Sprintf(format, Options{Auth: []Auth{a}}), "secret", format)
		assert.NotContains(t, fmt.Sprintf(format, &Options{Auth: []Auth{a}}), "secret", format)
	}
}

func TestNamesOfOptions(t *testing.T) {
	assert.Equal(t, "curator kazoo Layout(5)", fmt.Sprint(LayoutCurator, " ", LayoutKazoo, " ", Layout(5)))
	assert.Equal(t, "auto quorum Proof(5)", fmt.Sprint(ProofAuto, " ", ProofQuorum, " ", Proof(5)))
}
