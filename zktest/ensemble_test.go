package zktest_test

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/go-zookeeper/zk"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/internal/testserver"
	"github.com/fairlock/fairlock/zktest"
)

func TestEveryKindOfEnsembleWorks(t *testing.T) {
	for name, opts := range map[string]*zktest.Options{
		"single":             nil,
		"three":              {Members: 3},
		"five":               {Members: 5},
		"proxied":            {Members: 3, Proxied: true},
		"single proxied":     {Proxied: true},
		"fsync":              {Fsync: true},
		"tls":                {TLS: true},
		"everything at once": {Members: 3, Proxied: true, TLS: true, Fsync: true},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			e := zktest.New(t, opts)
			t.Logf("started in %v", time.Since(began))
			works(t, e.Client(t))

			for i := range e.Len() {
				m := e.Member(i)
				works(t, only(t, e, i))
				assert.NotZero(t, m.Pid())
				assert.Equal(t, "m"+strconv.Itoa(i), m.Name())
				assert.Equal(t, e.Endpoints()[i], m.Endpoint())
				if opts != nil && opts.Proxied {
					assert.Equal(t, m.ClientProxy().Addr(), m.Endpoint())
					assert.Equal(t, m.ClientProxy().Target(), m.Direct())
				} else {
					assert.Equal(t, m.Direct(), m.Endpoint())
				}
			}
			leader(t, e)
		})
	}
}

func TestSessionTimeoutsFollowTheOptions(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Tick: time.Second, MaxSession: 20 * time.Second})
	for ask, get := range map[time.Duration]string{
		time.Second:     "to=2000,",
		4 * time.Second: "to=4000,",
		0:               "to=10000,",
		time.Hour:       "to=20000,",
	} {
		conn, err := e.NewClient(&zktest.ClientOptions{Session: ask})
		require.NoError(t, err)
		_, _, err = conn.Get("/")
		require.NoError(t, err)

		cons, err := e.Member(0).Command(hang.Context(t), "cons")
		require.NoError(t, err)
		assert.Contains(t, cons, get)
		conn.Close()
	}
}

func TestTheHeapSizeFollowsTheOptions(t *testing.T) {
	e := zktest.New(t, &zktest.Options{HeapBytes: 64 << 20})

	envi, err := e.Member(0).Command(hang.Context(t), "envi")

	require.NoError(t, err)
	most, err := strconv.Atoi(regexp.MustCompile(`os\.memory\.max=(\d+)MB`).FindStringSubmatch(envi)[1])
	require.NoError(t, err)
	assert.InDelta(t, 64, most, 8, "less what the collector keeps for itself")
}

func TestPropertiesAndConfigReachTheServer(t *testing.T) {
	e := zktest.New(t, &zktest.Options{
		Properties: map[string]string{"zookeeper.extendedTypesEnabled": "true"},
		Config:     map[string]string{"maxClientCnxns": "77", "maxSessionTimeout": "7000"},
	})
	_, err := e.Client(t).CreateTTL("/short", nil, zk.FlagTTL, zk.WorldACL(zk.PermAll), time.Minute)
	require.NoError(t, err)

	conf, err := e.Member(0).Command(hang.Context(t), "conf")
	require.NoError(t, err)
	assert.Contains(t, conf, "maxClientCnxns=77\n")
	assert.Contains(t, conf, "maxSessionTimeout=7000\n", "it wins over Options.MaxSession")
}

func TestDataDirAndFsyncFollowTheOptions(t *testing.T) {
	memory := os.TempDir()
	if info, err := os.Stat("/dev/shm"); err == nil && info.IsDir() {
		memory = "/dev/shm"
	}
	for name, c := range map[string]struct {
		opts  zktest.Options
		base  string
		syncs bool
	}{
		"fast":  {zktest.Options{}, memory, false},
		"fsync": {zktest.Options{Fsync: true}, os.TempDir(), true},
	} {
		t.Run(name, func(t *testing.T) {
			e, err := zktest.Start(t.Context(), &c.opts)
			require.NoError(t, err)
			defer e.Close()
			works(t, e.Client(t))

			mntr, err := e.Member(0).Command(hang.Context(t), "mntr")
			require.NoError(t, err)
			assert.Equal(t, c.syncs, !strings.Contains(mntr, "zk_cnt_fsynctime\t0\n"))
			conf, err := e.Member(0).Command(hang.Context(t), "conf")
			require.NoError(t, err)
			_, dir, found := strings.Cut(conf, "dataDir=")
			require.True(t, found)
			dir, _, _ = strings.Cut(dir, "\n")
			assert.True(t, strings.HasPrefix(dir, filepath.Join(c.base, "zktest-")), dir)
			assert.DirExists(t, dir)

			require.NoError(t, e.Close())
			assert.NoDirExists(t, dir)
		})
	}
}

func TestCommandFailsWithoutAnAnswer(t *testing.T) {
	m := zktest.New(t, nil).Member(0)
	require.NoError(t, m.Pause())
	_, err := m.Command(hang.Ending(t, 100*time.Millisecond), "srvr")
	require.ErrorIs(t, err, context.DeadlineExceeded)

	m.Kill()
	_, err = m.Command(hang.Context(t), "srvr")
	require.ErrorContains(t, err, `zktest: command "srvr" to "m0": `)
}

func TestClientOfOneServerReconnectsAtOnce(t *testing.T) {
	e := zktest.New(t, &zktest.Options{Proxied: true})
	conn, err := e.NewClient(&zktest.ClientOptions{Endpoints: e.Endpoints()})
	require.NoError(t, err)
	defer conn.Close()
	works(t, conn)
	id := conn.SessionID()

	const quick = 900 * time.Millisecond
	took := metronome.Quickest(quick, func() {
		e.Member(0).ClientProxy().Reset()
		recovers(t, conn)
	})

	assert.Less(t, took, quick, "the library sleeps a second before it begins its list again")
	assert.Equal(t, id, conn.SessionID())
}

func TestTLSRefusesClientsWithoutACertificate(t *testing.T) {
	e := zktest.New(t, &zktest.Options{TLS: true})
	other, err := e.CA().Client("other")
	require.NoError(t, err)
	other.Certificates = nil
	for name, dial := range map[string]zk.Dialer{"without a certificate": dialer(other), "without TLS": dialer(nil)} {
		t.Run(name, func(t *testing.T) {
			states := make(chan zk.State, 1000)
			conn, err := e.NewClient(&zktest.ClientOptions{
				Dialer:  dial,
				OnEvent: func(event zk.Event) { states <- event.State },
			})
			require.NoError(t, err)
			defer conn.Close()

			ctx := hang.Context(t)
			for attempts := 0; attempts < 4; { // the last one means that three failed
				select {
				case state := <-states:
					require.NotEqual(t, zk.StateHasSession, state, "the server accepted it")
					if state == zk.StateConnecting {
						attempts++
					}
				case <-ctx.Done():
					require.Fail(t, "the server does not hang up")
				}
			}
		})
	}
	works(t, e.Client(t))
}

func TestCloseLeavesNothing(t *testing.T) {
	t.Chdir(t.TempDir())
	e, err := zktest.Start(t.Context(), &zktest.Options{Members: 3, Proxied: true, Dir: "."})
	require.NoError(t, err)
	works(t, e.Client(t))
	require.NoError(t, e.Member(0).Pause())

	require.NoError(t, e.Close(), "a paused server does not delay Close")
	require.NoError(t, e.Close(), "closing twice is allowed")

	for i := range e.Len() {
		assert.True(t, testserver.Refused(e.Member(i).Direct()))
		assert.DirExists(t, filepath.Join("m"+strconv.Itoa(i), "data", "version-2"), "a directory given is the caller's")
	}
}

func TestNonsenseIsRefused(t *testing.T) {
	for name, opts := range map[string]zktest.Options{
		"members":         {Members: -1},
		"tick":            {Tick: time.Microsecond},
		"session":         {Tick: time.Second, MaxSession: time.Second},
		"container check": {ContainerCheck: time.Microsecond},
		"heap":            {HeapBytes: 1 << 20},
		"timeout":         {StartTimeout: -1},
		"property":        {Properties: map[string]string{"a=b": "c"}},
		"config":          {Config: map[string]string{"a": "b\nc=d"}},
		"dir":             {Dir: filepath.Join(os.DevNull, "nowhere")},
		"no dir":          {Dir: filepath.Join(t.TempDir(), "nowhere")},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := zktest.Start(t.Context(), &opts)
			require.ErrorContains(t, err, "zktest: ")
		})
	}
}

func TestServerThatRefusesToStartReportsTheReason(t *testing.T) {
	_, err := zktest.Start(t.Context(), &zktest.Options{Config: map[string]string{"tickTime": "soon"}})
	require.ErrorContains(t, err, `zktest: wait for "m0": process ended: `)
	require.ErrorContains(t, err, `"soon"`)
}

func TestStartEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := zktest.Start(ctx, &zktest.Options{Members: 3})
	require.ErrorIs(t, err, context.Canceled)
}
