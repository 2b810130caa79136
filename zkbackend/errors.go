package zkbackend

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
	"github.com/fairlock/fairlock/zkbackend/internal/conn"
)

// ErrSequence means that the sequence numbers of the queue are used up, or nearly. It is in
// the chain of an error of Lock, with session.ErrRefused. The entries that are in the queue
// are served; after them, the queue's folder must be deleted. The servers do that themselves
// about a minute after it has become empty, unless folders of other locks are in it, as that
// of "a/b" in that of "a".
var ErrSequence = errors.New("zkbackend: the sequence numbers of the queue are used up")

// isClassified reports whether an error already wraps one of the contract. A server's own
// answer does not. So an error that is not classified came from a server: the request was carried out
// nowhere, and the step that it names was refused.
func isClassified(err error) bool {
	return slices.ContainsFunc([]error{
		driver.ErrUnavailable, driver.ErrSessionOver, driver.ErrRefused, driver.ErrDenied, driver.ErrGone, driver.ErrClosed,
	}, func(e error) bool { return errors.Is(err, e) })
}

// translate returns the contract's error for a server's answer to a request that needs the
// permission perm on the node path. The answer stays in the chain. It is for answers that the caller
// cannot cure: those that it can are decided by the truth tables of the calls.
func translate(err error, perm, path string) error {
	if path == "" {
		path = "/"
	}
	switch {
	case isClassified(err):
		return err
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%w: permission %s on %s is missing: %w", driver.ErrDenied, perm, path, err)
	case errors.Is(err, zk.ErrInvalidACL):
		return fmt.Errorf("%w: Options.ACL is not valid for %s (a scheme that the server does not know, or \"auth\" without a login): %w",
			driver.ErrRefused, path, err)
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return fmt.Errorf("%w: %s is an ephemeral node and cannot be a folder: %w", driver.ErrRefused, path, err)
	case errors.Is(err, conn.ErrUnimplemented):
		return fmt.Errorf("%w: the server is older than ZooKeeper 3.5.3 and has no container nodes: %w", driver.ErrRefused, err)
	}
	return fmt.Errorf("%w: %s: %w", driver.ErrRefused, path, err)
}

// isMissing reports whether a server has answered that a node, or its folder, is not there.
func isMissing(err error) bool { return errors.Is(err, zk.ErrNoNode) }

// isUnknown reports whether the outcome of a request is unknown.
func isUnknown(err error) (*conn.UnknownError, bool) { return errors.AsType[*conn.UnknownError](err) }
