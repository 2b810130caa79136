package top

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/schema"
)

// pressed returns the state after a key, and what Run is to do.
func (s State) pressed(k Key) (State, Command) {
	s.message = ""
	switch {
	case k == Interrupt:
		return s, Command{Do: Quit}
	case s.question != nil:
		do := s.question.do
		s.question = nil
		if k != "y" && k != "Y" {
			s.message = "nothing was done"
			return s, Command{}
		}
		return s, do
	case s.help:
		s.help = false
		return s, Command{}
	case s.typing:
		return s.typed(k), Command{}
	}
	moved, ok := s.moved(k)
	if ok {
		return moved, Command{}
	}
	return s.chosen(k)
}

// typed returns the state after a key that edits the filter.
func (s State) typed(k Key) State {
	switch k {
	case Enter:
		s.typing = false
	case Escape:
		s.typing, s.filter = false, ""
	case Backspace:
		_, n := utf8.DecodeLastRuneInString(s.filter)
		s.filter = s.filter[:len(s.filter)-n]
	default:
		if utf8.RuneCountInString(string(k)) == 1 {
			s.filter += string(k)
		}
	}
	return s
}

// moved returns the state after a key that moves the selection, and whether k is one.
func (s State) moved(k Key) (State, bool) {
	by := map[Key]int{
		Up: -1, "k": -1, Down: 1, "j": 1, PageUp: -max(s.room(), 1), PageDown: max(s.room(), 1),
		Home: -1 << 30, "g": -1 << 30, End: 1 << 30, "G": 1 << 30,
	}
	n, ok := by[k]
	switch {
	case !ok:
	case s.open == "":
		s.list = s.list.moved(s.names(), n)
	default:
		s.entries = s.entries.moved(s.ids(), n)
	}
	return s, ok
}

// chosen returns the state after any other key, and what Run is to do.
func (s State) chosen(k Key) (State, Command) {
	switch k {
	case "q":
		return s, Command{Do: Quit}
	case "?":
		s.help = true
	case "a":
		return s.ask(), Command{}
	case "e":
		return s.evict(), Command{}
	case Escape:
		if s.open == "" {
			s.filter = ""
			break
		}
		s.open, s.queue, s.entries = "", schema.Queue{}, cursor{}
		return s, Command{Do: Read}
	case Enter:
		l, ok := s.lock()
		if ok && s.open == "" {
			s.open, s.queue, s.entries = l.Name, l, cursor{}
			return s, Command{Do: Read}
		}
	default:
	}
	if s.open != "" {
		return s, Command{}
	}
	switch k {
	case "s", ">":
		s.order = s.order.next(1)
	case "<":
		s.order = s.order.next(-1)
	case "/":
		s.typing = true
	default:
	}
	return s, Command{}
}

// ask asks the user whether to ask the holders of the selected lock to yield. If they
// have been asked, it asks whether to withdraw that request.
func (s State) ask() State {
	l, ok := s.lock()
	switch {
	case !ok:
		s.message = "no lock is selected"
	case slices.Contains(s.asked, l.Name):
		s.question = &question{
			text: fmt.Sprintf("Withdraw the yield request to the holders of %q? [y/N]", l.Name),
			do:   Command{Do: Withdraw, Name: l.Name},
		}
	case l.Holders == 0:
		s.message = fmt.Sprintf("%q has no holder", l.Name)
	default:
		s.question = &question{
			text: fmt.Sprintf("Ask %s to yield %q? [y/N]", holders(l), l.Name),
			do:   Command{Do: Ask, Name: l.Name},
		}
	}
	return s
}

// most is how many holders a question names.
const most = 3

// holders names the holders of a lock, with their tokens.
func holders(l schema.Queue) string {
	var all []string
	for _, e := range l.Entries {
		if e.State != schema.Holder {
			continue
		}
		if len(all) == most {
			all = append(all, fmt.Sprintf("%d more", l.Holders-most))
			break
		}
		all = append(all, fmt.Sprintf("%s (token %d)", screen.Printable(e.Who()), e.Token))
	}
	return strings.Join(all, ", ")
}

// evict asks the user whether to evict the selected entry; in the list, the only holder
// of the selected lock.
func (s State) evict() State {
	l, ok := s.lock()
	if !ok {
		s.message = "no lock is selected"
		return s
	}
	var e schema.Entry
	switch {
	case s.open != "":
		for _, x := range l.Entries {
			if id(x) == s.entries.id {
				e = x
			}
		}
	case l.Holders == 0:
		s.message = fmt.Sprintf("%q has no holder: press Enter and select a waiter", l.Name)
		return s
	case l.Holders > 1:
		s.message = fmt.Sprintf("%q has %d holders: press Enter and select one", l.Name, l.Holders)
		return s
	default:
		e = l.Entries[0]
	}
	if e.Token == 0 {
		s.message = "the entry is gone, or it cannot be read"
		return s
	}
	text := fmt.Sprintf("Evict %s, which %s?", screen.Printable(e.Who()), show.Does(l.Name, e))
	if e.State == schema.Holder {
		text += " This breaks the lock: the next waiter holds at once, while this holder may work on for a moment."
	}
	s.question = &question{text: text + " [y/N]", do: Command{Do: Evict, Name: l.Name, Token: e.Token, Holder: e.State == schema.Holder}}
	return s
}
