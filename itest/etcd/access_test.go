package etcd

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.uber.org/zap"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/etcdtest"
	"github.com/fairlock/fairlock/internal/door"
	"github.com/fairlock/fairlock/internal/hang"
	"github.com/fairlock/fairlock/internal/metronome"
	"github.com/fairlock/fairlock/itest/both"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/recipes/recipetest"
	"github.com/fairlock/fairlock/session"
	"github.com/fairlock/fairlock/testnet"
)

const (
	goodPassword = "corr3ct-horse"
	badPassword  = "wr0ng-horse"
)

// withUsers turns on authentication: "worker" may read and write the prefix and
// nothing else, "reader" may only read it, "outsider" may do nothing.
func withUsers(t testing.TB, endpoint, prefix string) {
	t.Helper()
	root, err := clientv3.New(clientv3.Config{Endpoints: []string{endpoint}, Logger: zap.NewNop()})
	require.NoError(t, err)
	defer root.Close()
	ctx := recipetest.Bounded(t)
	end := clientv3.GetPrefixRangeEnd(prefix)
	for _, err := range []error{
		second(root.RoleAdd(ctx, "rw")),
		second(root.RoleGrantPermission(ctx, "rw", prefix, end, clientv3.PermissionType(clientv3.PermReadWrite))),
		second(root.RoleAdd(ctx, "ro")),
		second(root.RoleGrantPermission(ctx, "ro", prefix, end, clientv3.PermissionType(clientv3.PermRead))),
		second(root.UserAdd(ctx, "root", goodPassword)), second(root.UserGrantRole(ctx, "root", "root")),
		second(root.UserAdd(ctx, "worker", goodPassword)), second(root.UserGrantRole(ctx, "worker", "rw")),
		second(root.UserAdd(ctx, "reader", goodPassword)), second(root.UserGrantRole(ctx, "reader", "ro")),
		second(root.UserAdd(ctx, "outsider", goodPassword)),
		second(root.AuthEnable(ctx)),
	} {
		require.NoError(t, err)
	}
}

// loggedIn returns a client that logs in as a user.
func loggedIn(t testing.TB, endpoint, user string, meter *meter) *clientv3.Client {
	t.Helper()
	cfg := clientv3.Config{Endpoints: []string{endpoint}, Username: user, Password: goodPassword, Logger: zap.NewNop()}
	if meter != nil {
		meter.on(&cfg)
	}
	client, err := clientv3.New(cfg)
	require.NoError(t, err)
	t.Cleanup(func() { _ = client.Close() })
	return client
}

func permissionOnTheRoot(t *testing.T) {
	const root, keys = "team/locks", "team%2Flocks/"
	endpoint := etcdWithLogins(t, 300)
	withUsers(t, endpoint, keys)
	as := func(user, password string) etcdbackend.DialConfig {
		return etcdbackend.DialConfig{Endpoints: []string{endpoint}, Username: user, Password: password, Timeout: recipetest.Patience}
	}
	monitor := watchPrefix(t, loggedIn(t, endpoint, "root", nil), keys)
	var errs []error
	var clients []*lockClient
	dial := func(user, password string) (*lockClient, error) {
		p := newClient(t, root, recipetest.CalmTTL)
		err := p.dial(t, as(user, password))
		errs, clients = append(errs, err), append(clients, p)
		return p, err
	}

	one, err := dial("worker", goodPassword)
	require.NoError(t, err)
	two, err := dial("worker", goodPassword)
	require.NoError(t, err)
	workersCanDoEverything(t, one, two, monitor)
	require.NoError(t, two.Close())
	monitor.SeesNothingLeft(t)

	for _, user := range []string{"reader", "outsider"} {
		p, err := dial(user, goodPassword)
		require.NoError(t, err, "a lease needs no permission")
		m := mutex.New(p.Session, "secret/plans")
		watch := metronome.Begin(t)
		for what, err := range both.Calls(recipetest.Bounded(t), p.Session, "secret/plans") {
			require.ErrorIs(t, err, session.ErrDenied, what)
			assert.ErrorContains(t, err, `"secret/plans"`, what)
			assert.ErrorContains(t, err, "permission denied", what)
			assert.ErrorContains(t, err, `READWRITE on the prefix "team%2Flocks/"`, what)
			errs = append(errs, err)
		}
		_, qerr := m.Queue(recipetest.Bounded(t))
		_, nerr := p.Names(recipetest.Bounded(t), "")
		if user == "outsider" {
			require.ErrorIs(t, qerr, session.ErrDenied)
			require.ErrorIs(t, nerr, session.ErrDenied)
		} else {
			require.NoError(t, qerr)
			require.NoError(t, nerr)
		}
		assert.Less(t, watch.Passed(), recipetest.Patience, "none goes on until its context ends")
		errs = append(errs, qerr, nerr)
		if user == "reader" {
			errs = append(errs, evictIsDenied(t, one, p))
		}
		require.NoError(t, p.Close())
		t.Logf("%s: %v", user, errs[len(errs)-4])
	}
	require.NoError(t, one.Close())
	watch := metronome.Begin(t)
	_, err = dial("worker", badPassword)
	require.ErrorIs(t, err, session.ErrDenied)
	assert.Less(t, watch.Passed(), recipetest.Patience, "sooner than the timeout")
	t.Log(err)
	_, err = dial("unknown", goodPassword)
	require.ErrorIs(t, err, session.ErrDenied)

	monitor.SeesNothingLeft(t)
	errs = append(errs, errorOf(as("worker", goodPassword)))
	for _, password := range []string{goodPassword, badPassword} {
		for _, err := range errs {
			if err != nil {
				assert.NotContains(t, err.Error(), password)
			}
		}
		for _, p := range clients {
			assert.NotContains(t, p.Log.String(), password)
		}
	}
}

// evictIsDenied has a user that may only read evict a holder, and returns the error.
func evictIsDenied(t *testing.T, worker, reader *lockClient) error {
	t.Helper()
	h := worker.Lock(t, "held")
	held := recipetest.Shown(reader.Queued(t, "held", 1)[0])
	err := both.Decided(func() error { return reader.Evict(recipetest.Bounded(t), held) })
	require.ErrorIs(t, err, session.ErrDenied)
	assert.ErrorContains(t, err, `"held"`)
	assert.ErrorContains(t, err, `READWRITE on the prefix "team%2Flocks/" is needed`)
	recipetest.Unlock(t, h) // it stayed
	return err
}

// errorOf returns an error with the texts that a program prints of its configuration.
func errorOf(cfg etcdbackend.DialConfig) error { return &printed{cfg} }

type printed struct{ cfg etcdbackend.DialConfig }

func (p *printed) Error() string { return p.cfg.String() + p.cfg.GoString() }

// workersCanDoEverything goes through all that a session does at the server.
func workersCanDoEverything(t *testing.T, one, two *lockClient, monitor *monitor) {
	t.Helper()
	h := one.Lock(t, "orders/settle")
	for _, prefix := range []string{"", "orders/"} {
		names, err := two.Names(recipetest.Bounded(t), prefix)
		require.NoError(t, err)
		assert.Equal(t, []string{"orders/settle"}, names)
	}
	recipetest.Unlock(t, h)
	both.Use(t, &one.Client, &two.Client, "orders/")
	monitor.SeesNothingLeft(t)
	one.Kept(t)
	two.Kept(t)
}

// sessionSurvivesItsLogin is about logins that live for two seconds, while a
// session renews only every four and a half: every token that it uses has
// expired when it is used again, and the one that its watch stream was opened
// with never comes back.
func sessionSurvivesItsLogin(t *testing.T) {
	const logins = 2 // seconds
	endpoint := etcdWithLogins(t, logins)
	withUsers(t, endpoint, "root/")
	var meter meter
	client := loggedIn(t, endpoint, "worker", &meter)
	holder := newClient(t, "root", recipetest.EventTTL).open(t, client) // so a grant shows an event
	waiter := newClient(t, "root", recipetest.EventTTL).open(t, client)
	h := holder.Lock(t, "x")
	r := waiter.Begin(recipetest.Bounded(t), "x")
	recipetest.Until(t, "its watches", func() bool { return meter.watches.Load() >= 2 })

	// Only its use shows that a login has expired, so time must pass. If the machine stands
	// still, a new stream is made meanwhile, with a login that has not expired.
	streams := meter.streams.Load()
	for range 3 {
		time.Sleep(6 * logins * time.Second)
		before := streams
		if streams = meter.streams.Load(); streams == before {
			break
		}
	}
	assert.NoError(t, context.Cause(h.Context()))
	r.Waits(t)
	refused := meter.refused.Load()
	behind := holder.Begin(recipetest.Bounded(t), "x") // which takes a watch on the waiter
	recipetest.Until(t, "a watch refused", func() bool { return meter.refused.Load() > refused })
	recipetest.Until(t, "a stream with a new login", func() bool { return meter.streams.Load() > streams })
	other := waiter.Lock(t, "y")
	begin := recipetest.Now()
	recipetest.Unlock(t, h)
	second := r.Granted(t)
	t.Logf("granted %s after the release", r.At.Sub(begin))
	recipetest.Unlock(t, second)
	third := behind.Granted(t)

	assert.Greater(t, int64(third.Token()), int64(second.Token()))
	recipetest.Unlock(t, third)
	recipetest.Unlock(t, other)
	assert.Positive(t, meter.badTokens.Load(), "requests with an expired login")
	t.Logf("%d requests came with an expired login; %d watches were refused, %d streams made anew, %d logins",
		meter.badTokens.Load(), meter.refused.Load(), meter.streams.Load()-streams, meter.logins.Load())
	holder.Kept(t)
	waiter.Kept(t)
	names, err := holder.Names(recipetest.Bounded(t), "")
	require.NoError(t, err)
	assert.Empty(t, names)
}

// renewalsNeedNoLogin checks how often a session logs in: a login is slow on purpose,
// against guessed passwords, and is committed like a write.
func renewalsNeedNoLogin(t *testing.T) {
	endpoint := etcdWithLogins(t, 300)
	withUsers(t, endpoint, "root/")
	var meter meter
	p := newClient(t, "root", recipetest.CalmTTL)
	renewed := make(chan session.Event, 1000)
	p.opts.Session.Hooks.SessionRenewed = func(ev session.Event) { renewed <- ev }
	p.open(t, loggedIn(t, endpoint, "worker", &meter))
	term, err := session.Engine(door.Key{}).Of(p.Session).Live(recipetest.Bounded(t))
	require.NoError(t, err)
	recipetest.Wait(t, renewed, "the lease")
	before := meter.logins.Load()
	const renewals = 6
	for range renewals {
		term.Driver().Renew() // the next one, now
		recipetest.Wait(t, renewed, "a renewal")
	}
	logins := meter.logins.Load() - before

	t.Logf("%d logins for %d renewals", logins, renewals)
	// A renewal needs one if it is sent before the stream of the last one is free again.
	assert.LessOrEqual(t, logins, int64(renewals/2), "logins for %d renewals", renewals)
}

// etcdWithLogins starts a member whose logins expire after so many seconds.
func etcdWithLogins(t testing.TB, seconds uint) (endpoint string) {
	cfg := embed.NewConfig()
	cfg.Dir = filepath.Join(t.TempDir(), "etcd")
	cfg.AuthTokenTTL = seconds
	cfg.BcryptCost = 4 // the least: logins are what this server does most
	cfg.UnsafeNoFsync = true
	cfg.EnableGRPCGateway = false
	cfg.TickMs, cfg.ElectionMs = 10, 100
	cfg.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.NewNop())
	free := url.URL{Scheme: "http", Host: "127.0.0.1:0"}
	cfg.ListenClientUrls, cfg.AdvertiseClientUrls = []url.URL{free}, []url.URL{free}
	cfg.ListenPeerUrls, cfg.AdvertisePeerUrls = []url.URL{free}, []url.URL{free}
	cfg.InitialCluster = cfg.Name + "=" + free.String()
	e, err := embed.StartEtcd(cfg)
	require.NoError(t, err)
	t.Cleanup(e.Close)
	recipetest.Wait(t, e.Server.ReadyNotify(), "a member that is ready")
	return e.Clients[0].Addr().String()
}

func unreachableIsNamed(t *testing.T) {
	const timeout = 3 * time.Second
	mute, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts connections, and no program reads
	require.NoError(t, err)
	defer mute.Close()
	ca, err := testnet.NewCA(t.TempDir())
	require.NoError(t, err)

	var checks sync.WaitGroup
	defer checks.Wait()
	reasons := map[string]string{"closed": "refused"}
	for name, addr := range map[string]string{"closed": both.ClosedAddr(t), "mute": mute.Addr().String()} {
		check := func(how string, most time.Duration, open func() error) {
			checks.Go(func() {
				watch := metronome.Begin(t)
				err := open()
				took := watch.Passed()
				t.Logf("%s, %s: %s: %v", name, how, took.Round(time.Millisecond), err)
				assert.ErrorIs(t, err, session.ErrUnavailable, "%s, %s", name, how)
				assert.ErrorContains(t, err, addr, "%s, %s", name, how)
				if watch.Stalled() < most/2 { // else there was no time to learn it
					assert.ErrorContains(t, err, reasons[name], "%s, %s", name, how)
				}
				assert.NotContains(t, fmt.Sprint(err), goodPassword)
				assert.Less(t, took, most+time.Second, "%s, %s", name, how)
			})
		}
		for how, cfg := range map[string]etcdbackend.DialConfig{
			"plain":  {},
			"login":  {Username: "worker", Password: goodPassword},
			"secure": {CAFile: ca.File()},
		} {
			cfg.Endpoints, cfg.Timeout = []string{addr}, timeout
			check("dialled, "+how, timeout, func() error {
				return second(etcdbackend.Dial(t.Context(), cfg, nil))
			})
		}
		client, err := clientv3.New(clientv3.Config{Endpoints: []string{addr}, Logger: zap.NewNop()})
		require.NoError(t, err)
		defer client.Close()
		defer checks.Wait()
		check("a user's client", timeout, func() error {
			return second(etcdbackend.Open(hang.Ending(t, timeout), client, nil))
		})
		check("a user's client and no deadline", 5*time.Second, func() error {
			return second(etcdbackend.Open(t.Context(), client, nil))
		})
	}
}

func tlsFromFiles(t *testing.T) {
	cluster := etcdtest.New(t, &etcdtest.Options{TLS: true})
	monitor := watchPrefix(t, cluster.Client(t), "root/")
	good := configOf(t, cluster, "worker")
	p := newClient(t, "root", recipetest.CalmTTL)
	require.NoError(t, p.dial(t, good))
	h := p.Lock(t, "x")
	r := p.Begin(recipetest.Bounded(t), "x")
	monitor.Sees(t, 2)
	recipetest.Unlock(t, h)
	recipetest.Unlock(t, r.Granted(t))
	require.NoError(t, p.Close())
	monitor.SeesNothingLeft(t)

	bad := good
	bad.CAFile = filepath.Join(t.TempDir(), "absent.pem")
	watch := metronome.Begin(t)
	assert.ErrorContains(t, newClient(t, "root", recipetest.CalmTTL).dial(t, bad), "absent.pem")
	assert.Less(t, watch.Passed(), time.Second, "nothing is asked without it")
	plain := good
	plain.Timeout = 2 * time.Second
	plain.CAFile, plain.CertFile, plain.KeyFile = "", "", ""
	plain.Endpoints = []string{"http://" + cluster.Endpoints()[0][len("https://"):]}
	err := newClient(t, "root", recipetest.CalmTTL).dial(t, plain)
	assert.ErrorIs(t, err, session.ErrUnavailable, "in the clear to a server that wants TLS")
}
