package doctor

import (
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/schema"
	"github.com/fairlock/fairlock/redisbackend"
)

// healthy is what Examine reports of a master with two replicas behind two sentinels.
func healthy() redisbackend.Report {
	sentinel := redisbackend.Sentinel{Addr: "s:1", Master: "a:1", Quorum: 2, Others: 2, Replicas: 2, DownAfter: time.Second, FailoverTimeout: 3 * time.Minute}
	online := redisbackend.Replica{Addr: "b:1", State: "online"}
	return redisbackend.Report{
		Sentinels: []redisbackend.Sentinel{sentinel, sentinel},
		Servers: []redisbackend.Server{{
			Addr: "a:1", Version: "7.0.15", Mode: "standalone", Connections: 3, MaxConnections: 100, Policy: "noeviction",
			AppendOnly: true, Attached: []redisbackend.Replica{online, online},
		}},
		Master: "a:1", Root: "fairlock", Layout: "1", MaxTTL: 15 * time.Second, Nodes: 3, Life: "l", Stored: "l",
	}
}

func TestNothingIsWrongWithAHealthyRedis(t *testing.T) {
	for _, f := range judgeRedis(healthy()) {
		assert.Equal(t, schema.Good, f.Level, f.Text)
	}
}

func TestWhatIsWrongWithRedisIsReported(t *testing.T) {
	type report = redisbackend.Report
	for want, change := range map[string]func(r *report){
		"the sentinel s:1 does not name the master: no answer":                         func(r *report) { r.Sentinels[0].Err = "no answer" },
		"the sentinels name different masters":                                         func(r *report) { r.Sentinels[0].Master = "b:1" },
		"the sentinel s:1 has failover-timeout 15s, and the greatest TTL is 15s":       func(r *report) { r.Sentinels[0].FailoverTimeout = 15 * time.Second },
		"b:1 does not report its status: no answer":                                    func(r *report) { r.Servers = append(r.Servers, redisbackend.Server{Addr: "b:1", Err: "no answer"}) },
		"a:1 and b:1 are both masters":                                                 func(r *report) { r.Servers = append(r.Servers, redisbackend.Server{Addr: "b:1", Version: "7"}) },
		"no server takes writes":                                                       func(r *report) { r.Servers[0].Replica, r.Servers[0].Linked, r.Master = true, true, "" },
		"a:1 could not write its data to the disk":                                     func(r *report) { r.Servers[0].SaveFailed = true },
		"a:1 has 95 of at most 100 connections":                                        func(r *report) { r.Servers[0].Connections = 95 },
		"a:1 uses 95.0 MB of 100.0 MB":                                                 func(r *report) { r.Servers[0].Memory, r.Servers[0].MaxMemory = 95e6, 100e6 },
		"each renewal waits for 1 replica, and 0 are connected":                        func(r *report) { r.Servers[0].Attached = nil },
		"the root counts 3 servers, and 2 are connected":                               func(r *report) { r.Servers[0].Attached = r.Servers[0].Attached[:1] },
		"the replica b:1 is wait_bgsave, and was last heard of 0s ago":                 func(r *report) { r.Servers[0].Attached[1].State = "wait_bgsave" },
		"a master that has no replica for 1h0m0s begins a new life, and all holds end": func(r *report) { r.Servers[0].BacklogTTL = time.Hour },
		"no program has used root \"fairlock\"":                                        func(r *report) { r.Layout, r.Stored = "", "" },
		"this login lacks the right to use eval":                                       func(r *report) { r.MissingToRead = []string{"eval"} },
		"this login may read the queues, and not lock: it lacks the right to use hset": func(r *report) { r.MissingToLock = []string{"hset"} },
		"2 sessions were not renewed for three times the TTL":                          func(r *report) { r.Stale = 2 },
		"the clock of a:1 is behind this machine's by 1m0s":                            func(r *report) { r.Servers[0].Clock = -time.Minute },
		"root \"x\" has the greatest TTL 5s: name that of the root in the URL (max-ttl=)": func(r *report) {
			r.Refused = "root \"x\" has the greatest TTL 5s: all programs of a root need the same MaxTTL"
		},
		"the server was restarted, has failed over, or its data was deleted: nothing is granted for another 11s": func(r *report) {
			r.Life, r.Claimed, r.Counted = "m", true, 4*time.Second
		},
	} {
		r := healthy()
		change(&r)
		var texts []string
		for _, f := range judgeRedis(r) {
			if f.Level != schema.Good {
				texts = append(texts, f.Text)
			}
		}
		assert.Contains(t, texts, want)
	}
}

func TestWhatRedisKeepsDependsOnItsSetup(t *testing.T) {
	for want, c := range map[string]struct {
		policy          string
		replicas, nodes int
		level           string
	}{
		"exclusion always, order until data is lost, tokens until data is lost: one server":                                                                      {"noeviction", 0, 1, schema.Good},
		"exclusion always, order until data is lost, tokens until data is lost: each renewal waits for 1 of 2 replicas":                                          {"volatile-lru", 2, 3, schema.Good},
		"exclusion until the primary splits, order until data is lost, tokens until the primary splits: the root counts 1 server, and the master has 2 replicas": {"noeviction", 2, 1, schema.Bad},
		"exclusion until data is lost, order until data is lost, tokens until data is lost: maxmemory-policy is allkeys-lru":                                     {"allkeys-lru", 0, 1, schema.Bad},
	} {
		r := healthy()
		r.Servers[0].Policy, r.Nodes = c.policy, c.nodes
		r.Servers[0].Attached = make([]redisbackend.Replica, c.replicas)
		for i := range r.Servers[0].Attached {
			r.Servers[0].Attached[i].State = "online"
		}

		f := judgeRedisKeeps(r, r.Servers[0])[0]

		assert.Equal(t, []string{want, c.level}, []string{f.Text, f.Level})
	}
}
