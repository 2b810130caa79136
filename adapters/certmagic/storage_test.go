package faircertmagic_test

import (
	"context"
	"io/fs"
	"testing"
	"testing/synctest"
	"time"

	"github.com/caddyserver/certmagic"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/internal/memtest"
	"github.com/fairlock/fairlock/membackend"
	"github.com/fairlock/fairlock/recipes/mutex"
	"github.com/fairlock/fairlock/session"
)

func TestReplicasObtainOneCertificateOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, a := membackend.New(), newAuthority()
		assets := &certmagic.FileStorage{Path: t.TempDir()}
		results := make(chan error)
		for range 5 {
			r := newReplica(t, st, assets, a, func(context.Context) error {
				time.Sleep(time.Minute)
				return nil
			})
			go func() { results <- r.ObtainCertAsync(t.Context(), domain) }()
		}

		for range 5 {
			require.NoError(t, <-results)
		}
		assert.EqualValues(t, 1, a.issued.Load())
		assert.EqualValues(t, 1, stored(t, assets))
		assert.Empty(t, memtest.Entries(st, queue))
	})
}

// The first attempt fails. The lock is lost before the second one, which then does not begin. The
// third one queues behind the other replica, and finds its certificate.
func TestALossBetweenAttemptsEndsTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, a := membackend.New(), newAuthority()
		assets := &certmagic.FileStorage{Path: t.TempDir()}
		attempts := 0
		first := newReplica(t, st, assets, a, func(context.Context) error {
			attempts++
			return errUnavailable
		})
		second := newReplica(t, st, assets, a, func(context.Context) error {
			time.Sleep(5 * time.Minute)
			return nil
		})
		obtained := make(chan error, 2)
		go func() { obtained <- first.ObtainCertAsync(t.Context(), domain) }()
		time.Sleep(30 * time.Second)
		synctest.Wait()
		require.Equal(t, 1, attempts)
		lose(t, st)
		go func() { obtained <- second.ObtainCertAsync(t.Context(), domain) }()

		time.Sleep(time.Minute)
		synctest.Wait()
		require.Equal(t, 2, first.logged("will retry"))
		assert.Contains(t, first.log.FilterMessage("will retry").All()[1].ContextMap()["error"], "unable to renew lock lease 'issue_cert_example.com': "+`lock "`+queue+`"`)
		require.NoError(t, <-obtained)
		require.NoError(t, <-obtained)
		assert.Equal(t, 1, attempts, "the first called its issuer only while it had the lock")
		assert.Equal(t, 2, first.logged("will retry"), "the third attempt waited for the lock")
		assert.Equal(t, 1, first.logged("certificate already exists in storage"))
		assert.EqualValues(t, 1, a.issued.Load())
		assert.Zero(t, first.logged("unable to unlock"))
		assert.Empty(t, memtest.Entries(st, queue))
	})
}

// certmagic does not call RenewLockLease while an order is under way, and not at all for an
// obtain or a renewal that is not repeated.
func TestAfterALossNothingIsStored(t *testing.T) {
	for _, c := range []struct {
		name  string
		renew bool
		do    func(r *replica, ctx context.Context) error
	}{
		{"obtain in the foreground", false, func(r *replica, ctx context.Context) error { return r.ObtainCertSync(ctx, domain) }},
		{"obtain with retries", false, func(r *replica, ctx context.Context) error { return r.ObtainCertAsync(ctx, domain) }},
		{"renew in the foreground", true, func(r *replica, ctx context.Context) error { return r.RenewCertSync(ctx, domain, true) }},
		{"renew with retries", true, func(r *replica, ctx context.Context) error { return r.RenewCertAsync(ctx, domain, true) }},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				st, a := membackend.New(), newAuthority()
				assets := &certmagic.FileStorage{Path: t.TempDir()}
				second := newReplica(t, st, assets, a, nothing)
				if c.renew {
					require.NoError(t, second.ObtainCertSync(t.Context(), domain))
				}
				before := a.issued.Load()
				first := newReplica(t, st, assets, a, func(context.Context) error {
					lose(t, st)
					return c.do(second, t.Context())
				})
				ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second) // before a second attempt
				defer cancel()
				require.Error(t, c.do(first, ctx))

				assert.Equal(t, before+2, a.issued.Load(), "the order of the first went on")
				assert.Equal(t, before+1, stored(t, assets), "and what the second stored is still there")
			})
		})
	}
}

func TestUnlockAfterALossReleasesNoLaterHold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		s := newReplica(t, st, nil, nil, nil).storage
		other := newReplica(t, st, nil, nil, nil).storage
		require.NoError(t, s.Lock(t.Context(), "issue_cert_"+domain))
		lose(t, st)
		second := make(chan error)
		go func() { second <- s.Lock(t.Context(), "issue_cert_"+domain) }()
		synctest.Wait()

		require.NoError(t, s.Unlock(t.Context(), "issue_cert_"+domain), "nothing is left to release")
		require.NoError(t, <-second)
		ok, err := other.TryLock(t.Context(), "issue_cert_"+domain)
		require.NoError(t, err)
		assert.False(t, ok, "the second has it")
		require.NoError(t, s.Unlock(t.Context(), "issue_cert_"+domain))
		ok, err = other.TryLock(t.Context(), "issue_cert_"+domain)
		require.NoError(t, err)
		assert.True(t, ok)
		require.ErrorIs(t, s.Unlock(t.Context(), "issue_cert_"+domain), session.ErrUnlocked)
		require.NoError(t, other.Unlock(t.Context(), "issue_cert_"+domain))
	})
}

func TestRenewLockLeaseReportsALossOnceAndThenQueuesAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		const name = "issue_cert_" + domain
		s := newReplica(t, st, nil, nil, nil).storage
		other := newReplica(t, st, nil, nil, nil).storage
		require.ErrorIs(t, s.RenewLockLease(t.Context(), name, time.Minute), session.ErrUnlocked)
		require.NoError(t, s.Lock(t.Context(), name))
		require.NoError(t, s.RenewLockLease(t.Context(), name, time.Minute))

		for range 2 { // also what was acquired anew
			lose(t, st)
			require.ErrorIs(t, s.RenewLockLease(t.Context(), name, time.Minute), session.ErrLost)
			require.NoError(t, other.Lock(t.Context(), name))
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			require.ErrorIs(t, s.RenewLockLease(ctx, name, time.Minute), context.DeadlineExceeded)
			cancel()
			again := make(chan error)
			go func() { again <- s.RenewLockLease(t.Context(), name, time.Minute) }()
			synctest.Wait()
			require.NoError(t, other.Unlock(t.Context(), name))
			require.NoError(t, <-again)
			require.NoError(t, s.RenewLockLease(t.Context(), name, time.Minute))
		}
		require.NoError(t, s.Unlock(t.Context(), name))
		assert.Empty(t, memtest.Entries(st, queue))
	})
}

// writes notes the tokens of writes, and has no assets.
type writes struct {
	certmagic.Storage
	tokens []session.Token
	during func()
}

func (w *writes) Store(ctx context.Context, _ string, _ []byte) error { return w.note(ctx) }

func (w *writes) Delete(ctx context.Context, _ string) error { return w.note(ctx) }

func (w *writes) note(ctx context.Context) error {
	token, _ := session.TokenFrom(ctx)
	w.tokens = append(w.tokens, token)
	w.during()
	return ctx.Err()
}

func TestWritesUnderALockHaveItsTokenAndEndWithIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		w := &writes{during: func() {}}
		s := newReplica(t, st, w, nil, nil).storage
		const name, challenge = "issue_cert_*." + domain, "acme/test/challenge_tokens/wildcard_." + domain + ".json"
		site := certmagic.StorageKeys.SiteCert("test", "*."+domain)
		others := []string{certmagic.StorageKeys.SiteCert("test", domain), "acme/test/users/me/me.json", "wildcard_." + domain + ".json"}
		write := func(key string) error { return s.Store(t.Context(), key, nil) }
		remove := func(key string) error { return s.Delete(t.Context(), key) }

		require.NoError(t, write(site))
		require.NoError(t, s.Lock(t.Context(), name))
		entry := memtest.Entries(st, "certs/"+name)[0]
		require.NoError(t, write(site))
		require.NoError(t, remove(site))
		require.NoError(t, write(challenge))
		require.NoError(t, remove(challenge))
		for _, key := range others {
			require.NoError(t, write(key))
		}
		token := session.Token(entry.Token)
		assert.Equal(t, []session.Token{0, token, token, token, token, 0, 0, 0}, w.tokens)

		w.during = func() {
			st.Delete("certs/"+name, entry.Key)
			time.Sleep(time.Second)
		}
		err := write(site)
		require.ErrorIs(t, err, context.Canceled, "it was under way")
		require.ErrorIs(t, err, session.ErrLost)
		w.tokens, w.during = nil, func() {}
		require.ErrorIs(t, write(site), session.ErrLost)
		require.ErrorIs(t, remove(site), session.ErrLost)
		require.ErrorIs(t, write(challenge), session.ErrLost)
		require.NoError(t, remove(challenge), "certmagic would not close the port")
		require.Empty(t, w.tokens, "nothing was sent")
		for _, key := range others {
			require.NoError(t, write(key))
		}
		require.NoError(t, s.Unlock(t.Context(), name))
		require.NoError(t, write(site))
	})
}

func TestTryLockDistinguishesATakenLockFromAnError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st := membackend.New()
		r := newReplica(t, st, nil, nil, nil)
		other := newReplica(t, st, nil, nil, nil).storage
		ok, err := r.storage.TryLock(t.Context(), "a")
		require.NoError(t, err)
		require.True(t, ok)
		ok, err = r.storage.TryLock(t.Context(), "a")
		require.NoError(t, err)
		require.False(t, ok, "this process has it")
		ok, err = other.TryLock(t.Context(), "a")
		require.NoError(t, err)
		require.False(t, ok)
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, err = other.TryLock(ctx, "b")
		require.ErrorIs(t, err, context.Canceled)
		require.NoError(t, r.storage.Unlock(t.Context(), "a"))
		require.NoError(t, r.session.Close())
		_, err = r.storage.TryLock(t.Context(), "a")
		require.ErrorIs(t, err, session.ErrClosed)
		require.ErrorIs(t, r.storage.Lock(t.Context(), "a"), session.ErrClosed)
	})
}

// What the page begins with: the context of an order ends with the lock.
func TestDoAroundObtainEndsTheOrderAtALoss(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		st, a := membackend.New(), newAuthority()
		assets := &certmagic.FileStorage{Path: t.TempDir()}
		r := newReplica(t, st, assets, a, func(ctx context.Context) error {
			require.True(t, st.Delete("obtain", memtest.Entries(st, "obtain")[0].Key))
			<-ctx.Done()
			return context.Cause(ctx)
		})
		err := mutex.New(r.session, "obtain").Do(t.Context(), func(ctx context.Context, _ *session.Hold) error {
			return r.ObtainCertSync(ctx, domain)
		})
		require.ErrorIs(t, err, session.ErrLost)
		assert.Zero(t, a.issued.Load())
		_, err = assets.Load(t.Context(), certmagic.StorageKeys.SiteCert("test", domain))
		require.ErrorIs(t, err, fs.ErrNotExist)
	})
}
