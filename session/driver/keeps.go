package driver

// Keeps is what a service keeps of the three promises of a queue, and for how long. The
// zero value keeps all of them always.
type Keeps struct {
	// Exclusion: the service lets no client make an entry that is first while the client
	// of an earlier first entry can still trust its session.
	Exclusion Keep

	// Order: entries become first in the order in which the service received them. Where
	// it is kept only until data is lost, entries that wait may be lost, and their owners
	// join again.
	Order Keep

	// Tokens: they rise in each queue, over all of its entries.
	Tokens Keep
}

// Keep is for how long a service keeps a promise. A higher one is weaker.
type Keep uint8

// For how long a promise is kept. Readme, documentation and tools use the texts of String.
const (
	// Always: through every restart, every change of the leader, and every loss that the
	// service itself survives.
	Always Keep = iota

	// UntilDataLoss: until the service loses what it has acknowledged, as where a standby
	// that lags becomes the primary.
	UntilDataLoss

	// UntilSplit: until two servers act as the primary at the same time.
	UntilSplit
)

// String returns the text for people: "always", "until data is lost" or "until the
// primary splits".
func (k Keep) String() string {
	switch k {
	case Always:
		return "always"
	case UntilDataLoss:
		return "until data is lost"
	case UntilSplit:
		return "until the primary splits"
	}
	return "unknown"
}
