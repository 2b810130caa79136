package membackend

import (
	"slices"

	"github.com/fairlock/fairlock/session/driver"
)

// Expire ends a session at the service, as its own clock or an operator would: its
// entries are gone at once. Its client is not notified; it learns that at its next
// renewal or join. Expire reports whether the session lived.
func (st *Store) Expire(session string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	l := st.leases[session]
	if l == nil {
		return false
	}
	st.end(l)
	return true
}

// Delete deletes one entry, whatever its owner, as an operator would. It reports
// whether the entry was there.
func (st *Store) Delete(name, key string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	e := st.byKey(name, key)
	return e != nil && st.evict(e.Ref)
}

// evict deletes the entry that ref names, and says whether it was there.
func (st *Store) evict(ref driver.Ref) bool {
	e := st.find(ref)
	if e == nil {
		return false
	}
	st.rev++
	st.remove(e)
	return true
}

// putForeign, overwrite and touch are what memory.Door says of them.
func (st *Store) putForeign(name, key string, leased bool) (driver.Ref, bool) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.byKey(name, key) != nil {
		return driver.Ref{}, false
	}
	e := &entry{Entry: driver.Entry{
		Ref:      driver.Ref{Line: name, Key: key},
		Foreign:  true,
		Unleased: !leased,
	}}
	if leased {
		e.Session = "x"
	}
	e.write([]byte{})
	st.rev++
	st.put(e)
	return e.Ref, true
}

func (st *Store) overwrite(name, key string, value []byte) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	e := st.byKey(name, key)
	if e == nil {
		return false
	}
	st.change(e, slices.Clone(value))
	return true
}

func (st *Store) touch(name, key string) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	e := st.byKey(name, key)
	if e == nil {
		return false
	}
	st.change(e, e.value)
	return true
}

// change gives an entry another value.
func (st *Store) change(e *entry, value []byte) {
	st.rev++
	e.write(value)
	st.tellChanged(e)
}

func (st *Store) byKey(name, key string) *entry {
	ln := st.lines[name]
	if ln == nil {
		return nil
	}
	for _, e := range ln.entries {
		if e.Key == key {
			return e
		}
	}
	return nil
}
