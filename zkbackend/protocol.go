package zkbackend

// protocol is a family of programs that see each other's entries in a queue.
type protocol int

const (
	protocolMutex     protocol = iota // Curator's mutex, which go-zookeeper shares
	protocolReadWrite                 // Curator's read-write lock
	protocolKazoo
	protocolLatch // Curator's latch
	protocolCount
)

// protocol returns whose names the entry has.
func (n entryName) protocol() protocol {
	switch n.marker {
	case markRead, markWrite:
		return protocolReadWrite
	case markKazoo, markKazooRead:
		return protocolKazoo
	case markLatch:
		return protocolLatch
	}
	return protocolMutex
}

// protocols returns an entry of each protocol in a queue, and reports whether there are
// several.
func protocols(names []entryName) (seen [protocolCount]string, mixed bool) {
	kinds := 0
	for _, n := range names {
		p := n.protocol()
		if seen[p] == "" {
			kinds++
		}
		seen[p] = n.text
	}
	return seen, kinds > 1
}

// checkProtocols logs, once for each queue, that programs use it that do not see each
// other: Kazoo looks for other names than Curator does, and each of Curator's locks sorts
// the names of the others wrongly. This backend sees all of them, so the order among its
// own entries is right, but that of the others is not.
func (s *zkSession) checkProtocols(queue string, names []entryName) {
	seen, mixed := protocols(names)
	if !mixed {
		return
	}
	if logged, _ := s.mixed.get(queue); logged {
		return
	}
	s.mixed.put(queue, true, nil)
	s.cfg.Logger.Warn("zookeeper: entries of several protocols in one queue; their owners do not see each other", "name", queue,
		"mutex", seen[protocolMutex], "readwrite", seen[protocolReadWrite], "kazoo", seen[protocolKazoo], "latch", seen[protocolLatch])
}
