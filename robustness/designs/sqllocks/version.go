package sqllocks

import "context"

// Compare is what a change of an Account compares with what the program has read.
type Compare string

// The ways to compare.
const (
	ByVersion Compare = "the version" // that each change counts up
	ByValue   Compare = "the value"   // which may be the same again after others have changed it: ABA
	ByNothing Compare = "nothing"
)

// Account is a number in a row that programs change without a lock: each reads it, works, and writes what it has
// worked out if the row is still the one that it has read. Object mappers call that optimistic locking.
type Account struct {
	*DB
	Name string
	Compare
}

// Make makes the row, with nothing in it.
func (a *Account) Make(ctx context.Context) error {
	_, err := a.insert(ctx, "designs.account (name, amount, version) values ($1, 0, 0)", a.Name)
	return err
}

// Read returns what a change needs.
func (a *Account) Read(ctx context.Context) (amount, version int64, err error) {
	err = a.QueryRowContext(ctx, a.d.text("select amount, version from designs.account where name = $1"), a.Name).Scan(&amount, &version)
	return amount, version, err
}

// Write writes an amount if the row is as it was read. It reports whether it is written: if not, the program reads
// and works again.
func (a *Account) Write(ctx context.Context, amount, readAmount, readVersion int64) (bool, error) {
	set := "update designs.account set amount = $1, version = version + 1 where name = $2"
	args := []any{amount, a.Name}
	switch a.Compare {
	case ByVersion:
		set, args = set+" and version = $3", append(args, readVersion)
	case ByValue:
		set, args = set+" and amount = $3", append(args, readAmount)
	case ByNothing:
	}
	n, err := a.exec(ctx, set, args...)
	return n == 1, err
}

// Change adds to the account. work is called between the read and the write, and refused counts the writes that
// came too late.
func (a *Account) Change(ctx context.Context, add int64, work func()) (refused int, err error) {
	for {
		amount, version, err := a.Read(ctx)
		if err != nil {
			return refused, err
		}
		work()
		written, err := a.Write(ctx, amount+add, amount, version)
		if err != nil || written {
			return refused, err
		}
		refused++
	}
}
