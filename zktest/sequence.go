package zktest

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// SetSequence makes n the number of the next sequential child of path, which must exist
// and must not be past n. It is for tests of the end of the sequence: from 2147483647
// on, every child that is created alone gets that same number.
//
// Creating so many children would take weeks, so SetSequence kills all members and
// restarts them with changed data: as if one more child had been created and deleted.
// Afterwards all members run, even those that were paused or killed before; sessions
// survive if their timeouts are long enough. If ctx ends first, SetSequence returns an
// error, and members may be down. A container that is empty is due to be removed at the
// next Options.ContainerCheck then.
func (e *Ensemble) SetSequence(ctx context.Context, path string, n int32) error {
	if err := e.setSequence(ctx, path, n); err != nil {
		return fmt.Errorf("zktest: set sequence of %q to %d: %w", path, n, err)
	}
	return nil
}

func (e *Ensemble) setSequence(ctx context.Context, path string, n int32) error {
	next, err := e.sequence(ctx, path)
	if err != nil || next == n {
		return err
	}
	if next > n {
		return fmt.Errorf("the next child gets %d already", next)
	}
	_ = each(e.members, func(m *Member) error { m.halt(); return nil })
	if err := e.forge(path, n); err != nil {
		return err
	}
	if err := e.launch(ctx); err != nil {
		return err
	}
	next, err = e.sequence(ctx, path)
	switch {
	case err != nil:
		return err
	case next != n:
		return fmt.Errorf("the next child still gets %d", next)
	}
	return nil
}

// sequence returns the number of the next sequential child of path: how many children
// have ever been created there.
func (e *Ensemble) sequence(ctx context.Context, path string) (int32, error) {
	conn, err := e.NewClient(nil)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, conn.Close)() // this ends the request too
	if err := e.connected(ctx, conn); err != nil {
		return 0, err
	}
	_, stat, err := conn.Get(path)
	if err != nil {
		return 0, cmp.Or(ctx.Err(), err)
	}
	// The server counts creations plus deletions as Cversion.
	return int32(uint32(stat.Cversion+stat.NumChildren) / 2), nil
}

// forge appends to the data of the most advanced member, and copies the result to all
// others. So any of them may lead afterwards: all have the same data.
func (e *Ensemble) forge(path string, n int32) error {
	type state struct {
		of          *Member
		epoch, zxid int64
	}
	var states []state
	for _, m := range e.members {
		epoch, err := m.epoch("currentEpoch")
		if err != nil {
			return err
		}
		zxid, err := lastZxid(m.data())
		if err != nil && !errors.Is(err, os.ErrNotExist) { // wiped
			return err
		}
		states = append(states, state{m, epoch, zxid})
	}
	// Members elect their leader by the same order.
	best := slices.MaxFunc(states, func(a, b state) int {
		return cmp.Or(cmp.Compare(a.epoch, b.epoch), cmp.Compare(a.zxid, b.zxid))
	}).of
	if err := appendChild(best.data(), path, n); err != nil {
		return err
	}
	for _, m := range e.members {
		if m == best {
			continue
		}
		if err := m.become(best); err != nil {
			return err
		}
	}
	return nil
}

// become replaces the member's data by a copy of another member's. It keeps the
// member's own promise not to follow a leader of an older epoch (acceptedEpoch).
func (m *Member) become(other *Member) error {
	mine, err := m.epoch("acceptedEpoch")
	if err != nil {
		return err
	}
	theirs, err := other.epoch("acceptedEpoch")
	if err != nil {
		return err
	}
	if err := os.RemoveAll(m.data()); err != nil {
		return err
	}
	if err := os.CopyFS(m.data(), os.DirFS(other.data())); err != nil {
		return err
	}
	if mine <= theirs {
		return nil
	}
	return os.WriteFile(filepath.Join(m.data(), "acceptedEpoch"), []byte(strconv.FormatInt(mine, 10)), 0o600)
}

// epoch reads one of the two files with epochs. It returns 0 if the file does not
// exist, as with a single member.
func (m *Member) epoch(file string) (int64, error) {
	text, err := os.ReadFile(filepath.Join(m.data(), file))
	if errors.Is(err, os.ErrNotExist) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}
