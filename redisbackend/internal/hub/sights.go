package hub

import (
	"maps"
	"slices"
	"time"

	"github.com/fairlock/fairlock/internal/observed"
	"github.com/fairlock/fairlock/redisbackend/internal/script"
	"github.com/fairlock/fairlock/session/driver"
)

// How many of the sessions that were renewed longest ago one look asks for. The dead are among them as
// soon as all that live were renewed once. Where many are stale, the next look asks for more.
const (
	fewest = 16
	most   = 512
)

// Ask returns what a look at the sessions takes: how many of the stalest, and the owners of what is
// watched.
func (h *Hub) Ask() script.Args {
	h.mu.Lock()
	defer h.mu.Unlock()
	var a script.Args
	a.Int(h.ask)
	owners := slices.Collect(maps.Keys(h.owners))
	a.Texts(owners[:min(len(owners), most)])
	return a
}

// Saw takes in the sessions of an answer, and lets run end those that are over.
func (h *Hub) Saw(received driver.Instant, sessions script.Reply) {
	h.mu.Lock()
	defer h.mu.Unlock()
	var all []observed.Sight
	versions := map[string]int64{}
	stale := int64(0)
	for i := 0; i+1 < len(sessions); i += 2 {
		s := observed.Sight{ID: sessions.Text(i), Version: sessions.Int(i + 1)}
		s.TTL = script.TTL(s.ID)
		if _, twice := versions[s.ID]; twice || s.TTL == 0 || h.Owns(s.ID) {
			continue
		}
		if h.sights[s.ID] == s.Version {
			stale++
		}
		versions[s.ID] = s.Version
		all = append(all, s)
	}
	h.sights, h.ask = versions, min(fewest+2*stale, most)
	h.leases.Saw(received, all)
	maps.DeleteFunc(h.tried, func(s observed.Sight, _ driver.Instant) bool { return versions[s.ID] != s.Version })
	if h.ctx.Err() == nil && len(all) > 0 {
		h.start() // which waits until the first of them is due
		h.wake()
	}
}

// again is when a session that was ended, or could not be, is ended again: it is due until an answer does
// not show it any more.
const again = time.Second

// due returns the sessions that are to be ended now.
func (h *Hub) due() []observed.Sight {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.Clock.Now()
	all := slices.DeleteFunc(h.leases.Due(now), func(s observed.Sight) bool {
		tried, before := h.tried[s]
		return before && now < tried.Add(again)
	})
	for _, s := range all {
		h.tried[s] = now
	}
	return all
}

// next returns the time until a session is to be ended, and false if none is observed.
func (h *Hub) next() (time.Duration, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.Clock.Now()
	left, some := h.leases.Next(now)
	for _, s := range h.leases.Due(now) {
		tried, before := h.tried[s]
		if !before {
			return 0, true
		}
		left = max(left, tried.Add(again).Sub(now))
	}
	return left, some
}
