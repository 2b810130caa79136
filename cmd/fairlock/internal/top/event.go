package top

import (
	"time"

	"github.com/fairlock/fairlock/internal/schema"
)

// Event is what State changes with: Key, Resize, Locks, Queue, Unanswered or Done.
type Event any

// Key is a pressed key: a character stands for itself, other keys have names.
type Key string

// The keys with names.
const (
	Up        Key = "up"
	Down      Key = "down"
	PageUp    Key = "page up"
	PageDown  Key = "page down"
	Home      Key = "home"
	End       Key = "end"
	Enter     Key = "enter"
	Escape    Key = "escape"
	Backspace Key = "backspace"
	Interrupt Key = "^C"
)

// Resize is a new size of the terminal.
type Resize struct{ Width, Height int }

// Locks are all locks, read at a time.
type Locks struct {
	Lines []schema.Line
	At    time.Time
}

// Queue is the open queue, read at a time, with its yield requests.
type Queue struct {
	Line schema.Line
	At   time.Time
}

// Unanswered is a read that failed.
type Unanswered struct{}

// Done is what came of a Command.
type Done struct {
	Command Command
	Failed  bool
	Text    string
}

// Command is what Run is to do.
type Command struct {
	Do   Action
	Name string // the lock
	// Token is that of the entry to evict.
	Token int64
}

// Action is a kind of Command.
type Action uint8

// The actions.
const (
	Nothing  Action = iota
	Quit            // end
	Read            // read what is shown now, without waiting for the next turn
	Ask             // ask the holders to yield
	Withdraw        // withdraw that request
	Evict           // evict an entry
	Lapsed          // of Done only: the session is lost, and our yield requests with it
)
