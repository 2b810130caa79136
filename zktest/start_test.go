package zktest

import (
	"context"
	"io"
	"net"
	"os"
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/testserver"
)

// planned returns an ensemble of which nothing is made yet.
func planned(t *testing.T, opts Options) *Ensemble {
	t.Helper()
	opts, err := opts.complete()
	require.NoError(t, err)
	java, classpath, err := Find()
	require.NoError(t, err)
	return newEnsemble(opts, java, classpath)
}

// laidOut returns an ensemble that is ready to be started, and closes it after
// the test.
func laidOut(t *testing.T, opts Options) *Ensemble {
	t.Helper()
	e := planned(t, opts)
	t.Cleanup(func() { require.NoError(t, e.Close()) })
	require.NoError(t, e.prepare(t.Context()))
	return e
}

// Start tries again when another process took a port after it was found free.
// This test checks that Start recognizes that error.
func TestTakenPortIsRecognized(t *testing.T) {
	for name, c := range map[string]struct {
		opts Options
		of   func(addrs) string
	}{
		"client":      {Options{}, func(a addrs) string { return a.client }},
		"TLS client":  {Options{TLS: true}, func(a addrs) string { return a.client }},
		"client of 3": {Options{Members: 3}, func(a addrs) string { return a.client }},
		"quorum":      {Options{Members: 3}, func(a addrs) string { return a.quorum }},
		"election":    {Options{Members: 3}, func(a addrs) string { return a.election }},
	} {
		t.Run(name, func(t *testing.T) {
			e := laidOut(t, c.opts)
			for _, m := range e.members { // only the leader binds the quorum port
				l, err := net.Listen("tcp", c.of(m.addrs))
				require.NoError(t, err)
				defer l.Close()
			}

			err := e.launch(t.Context())

			require.Error(t, err)
			require.True(t, testserver.PortTaken(err), "%v", err)
		})
	}
}

// To Java, LC_ALL comes before LC_MESSAGES, and both before LANG.
func TestServersReportTheirErrorsInEnglish(t *testing.T) {
	assert.Equal(t,
		[]string{"PATH=/bin", "LC_CTYPE=de_DE.UTF-8", "LANG=fr_FR.UTF-8", "LC_MESSAGES=C"},
		environment([]string{"PATH=/bin", "LC_ALL=de_DE.UTF-8", "LANG=fr_FR.UTF-8"}))
}

func TestEmptyContainerWithASequenceIsRemoved(t *testing.T) {
	e := New(t, nil)
	conn := e.Client(t)
	_, err := conn.CreateContainer("/box", nil, zk.FlagContainer, zk.WorldACL(zk.PermAll))
	require.NoError(t, err)
	require.NoError(t, e.SetSequence(t.Context(), "/box", 7))

	e.opts.ContainerCheck = 100 * time.Millisecond // SetSequence itself needs longer
	require.NoError(t, e.Member(0).Restart(t.Context()))

	hang.Until(t, func() bool {
		found, _, err := conn.Exists("/box")
		return err == nil && !found
	}, "the container stays")
}

// The server reads the handshake and never answers.
func TestClientWithoutAnAnswerToTheHandshakeDialsAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var dials []time.Time
		conn, err := new(Ensemble).NewClient(&ClientOptions{
			Endpoints: []string{"127.0.0.1:1"},
			Session:   10 * time.Second,
			Dialer: func(string, string, time.Duration) (net.Conn, error) {
				dials = append(dials, time.Now())
				near, far := net.Pipe()
				go func() { _, _ = io.Copy(io.Discard, far) }()
				return near, nil
			},
		})
		require.NoError(t, err)

		time.Sleep(time.Minute)
		conn.Close()
		time.Sleep(2 * time.Minute) // the library still waits for the last handshake
		synctest.Wait()

		require.Greater(t, len(dials), 1)
		require.Less(t, dials[1].Sub(dials[0]), 10*time.Second)
	})
}

func TestStartThatTakesTooLongLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	e := planned(t, Options{Dir: dir, StartTimeout: 20 * time.Millisecond})

	err := e.start(t.Context())

	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, "no progress in 20ms")
	require.ErrorContains(t, err, "the end of its log")

	require.Never(t, func() bool { return !testserver.Refused(e.members[0].addrs.client) }, 500*time.Millisecond, 10*time.Millisecond)
	require.NoError(t, os.Remove(dir), "it must be empty")
}

// TestOnlyTheStartIsLogged: Start waits for as long as members log how they start. What they do
// for clients costs no line.
func TestOnlyTheStartIsLogged(t *testing.T) {
	e := New(t, &Options{Members: 3})
	began := e.progress()
	require.Greater(t, began, 3*1000, "the start of a member")

	for range 50 {
		conn := e.Client(t)
		_, err := conn.Create("/x", nil, zk.FlagEphemeral|zk.FlagSequence, zk.WorldACL(zk.PermAll))
		require.NoError(t, err)
		conn.Close()
	}

	assert.Less(t, e.progress()-began, 50*20, e.Member(0).running().Stderr())
}
