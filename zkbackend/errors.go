package zkbackend

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// ErrSequence means that the sequence numbers of the queue are used up, or nearly, and cannot
// restart because the queue's folder does not become empty: other programs' entries or
// folders are in it. It is in the chain of an error of Lock, with session.ErrRefused.
// Delete the folder when no lock in it is in use.
var ErrSequence = errors.New("zkbackend: the sequence numbers of the queue are used up")

// outcome is what an error of the client library says about its request.
type outcome int

const (
	done    outcome = iota // nil
	refused                // answered, and not done
	expired                // answered: there is no such session
	lost                   // not answered: done or not
)

// outcomeOf reads an error. The library has no type for codes that it does not
// know, only a text; to take those for "not answered" would repeat the request
// for ever.
func outcomeOf(err error) outcome {
	switch {
	case err == nil:
		return done
	case errors.Is(err, zk.ErrSessionExpired):
		return expired
	case errors.Is(err, zk.ErrSessionMoved):
		return lost // another connection speaks for the session: make a new one
	}
	for _, e := range []error{
		zk.ErrAPIError, zk.ErrNoNode, zk.ErrNoAuth, zk.ErrBadVersion, zk.ErrNoChildrenForEphemerals, zk.ErrNodeExists,
		zk.ErrNotEmpty, zk.ErrInvalidACL, zk.ErrInvalidFlags, zk.ErrAuthFailed, zk.ErrInvalidPath, zk.ErrBadArguments,
	} {
		if errors.Is(err, e) {
			return refused
		}
	}
	if code, ok := strings.CutPrefix(err.Error(), "unknown error: "); ok {
		switch code {
		case codeTimeout, codeConnectionLoss, codeSystem:
			return lost
		}
		return refused
	}
	return lost
}

// Codes that the library has no name for, as it writes them.
const (
	codeSystem         = "-1"
	codeConnectionLoss = "-4"
	codeUnimplemented  = "-6"
	codeTimeout        = "-7"
	codeQuota          = "-125"
	codeThrottled      = "-127"
)

// hasCode says that an answer was one of those.
func hasCode(err error, code string) bool {
	return err != nil && strings.HasSuffix(err.Error(), "unknown error: "+code)
}

// errOld: the server does not know container nodes.
var errOld = errors.New("the server is older than ZooKeeper 3.5.3 and has no container nodes")

// translate puts the driver's word for an outcome around the service's error.
// What is the request, path the node that it needs perm on.
func translate(err error, perm, path string) error {
	switch {
	case errors.Is(err, zk.ErrNoAuth):
		return fmt.Errorf("%w: permission %s on %s is missing: %w", driver.ErrDenied, perm, path, err)
	case errors.Is(err, zk.ErrSessionExpired):
		return fmt.Errorf("%w: %w", driver.ErrSessionOver, err)
	case errors.Is(err, zk.ErrInvalidACL):
		return fmt.Errorf("%w: Options.ACL is not valid for %s (a scheme that the server does not know, or \"auth\" without a login): %w",
			driver.ErrRefused, path, err)
	case errors.Is(err, zk.ErrNoChildrenForEphemerals):
		return fmt.Errorf("%w: %s is an ephemeral node and cannot be a folder: %w", driver.ErrRefused, path, err)
	case hasCode(err, codeUnimplemented):
		return fmt.Errorf("%w: %w: %w", driver.ErrRefused, errOld, err)
	case hasCode(err, codeQuota):
		return fmt.Errorf("%w: a quota on %s is used up: %w", driver.ErrRefused, path, err)
	case errors.Is(err, driver.ErrDenied), errors.Is(err, driver.ErrRefused), errors.Is(err, driver.ErrSessionOver),
		errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrClosed), errors.Is(err, driver.ErrGone):
		return err
	case outcomeOf(err) == refused && !hasCode(err, codeThrottled):
		return fmt.Errorf("%w: %s: %w", driver.ErrRefused, path, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrUnavailable, err)
}

// sequenceError is ErrSequence for the layers above.
func sequenceError(dir, why string) error {
	return fmt.Errorf("%w: %w: %s: %s", driver.ErrRefused, ErrSequence, dir, why)
}
