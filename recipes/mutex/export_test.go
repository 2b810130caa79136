package mutex

// NamesInUse returns how many names a Named keeps.
func NamesInUse(n *Named) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.names)
}
