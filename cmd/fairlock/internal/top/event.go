package top

import (
	"time"

	"github.com/fairlock/fairlock/internal/schema"
)

// Event changes a State: it is a Key, Resize, Locks, Queue, Unanswered or Done.
type Event any

// Key is a pressed key: the character itself, or the name of another key.
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

// Locks are the queues of all locks, and when they were read. Unread is why some are missing.
type Locks struct {
	Queues []schema.Queue
	Unread error
	At     time.Time
}

// Queue is the open queue with its yield requests, and when it was read.
type Queue struct {
	Queue schema.Queue
	At    time.Time
}

// Unanswered is a read that failed.
type Unanswered struct{}

// Done is the result of a Command.
type Done struct {
	Command Command
	Failed  bool
	Text    string
}

// Command is an order to Run.
type Command struct {
	Do   Action
	Name string // the lock
	// Token is the token of the entry to evict, and Holder reports that it held when the user was
	// asked.
	Token  int64
	Holder bool
}

// Action is a kind of Command.
type Action uint8

// The actions.
const (
	Nothing     Action = iota
	Quit               // end
	Read               // read what is shown now, without waiting for the next interval
	Ask                // ask the holders to yield
	Withdraw           // withdraw that request
	Evict              // evict an entry
	SessionLost        // of Done only: the session is lost, and our yield requests with it
)
