package zktest_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/zktest"
)

func TestEveryKindOfEnsembleWorks(t *testing.T) {
	for name, opts := range map[string]*zktest.Options{
		"single":         nil,
		"three":          {Members: 3},
		"proxied":        {Members: 3, Proxied: true},
		"single proxied": {Proxied: true},
		"fsync":          {Fsync: true},
		"tls":            {TLS: true},
		"everything":     {Members: 3, Proxied: true, TLS: true, Fsync: true},
	} {
		t.Run(name, func(t *testing.T) {
			began := time.Now()
			e := zktest.New(t, opts)
			t.Logf("started in %v", time.Since(began))
			works(t, e.Conn(t))

			for i := range e.Len() {
				m := e.Member(i)
				works(t, only(t, e, i))
				assert.NotZero(t, m.Pid())
				assert.Equal(t, e.Servers()[i], m.Addr())
			}
		})
	}
}
