package conn

import (
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/go-zookeeper/zk"

	"github.com/fairlock/fairlock/session/driver"
)

// code is the error code of a server's answer. KeeperException.Code of ZooKeeper has all of them, and
// testdata/codes.txt those of the version that the tests compare with. Codes are not ordered.
type code int32

// The codes that are more than a refusal of one request.
const (
	codeSystemError    code = -1
	codeConnectionLoss code = -4
	codeUnimplemented  code = -6
	codeTimeout        code = -7
	codeNoSession      code = -12
	codeNoNode         code = -101
	codeNoAuth         code = -102
	codeBadVersion     code = -103
	codeNodeExists     code = -110
	codeNotEmpty       code = -111
	codeExpired        code = -112
	codeAuthFailed     code = -115
	codeClosing        code = -116
	codeNothing        code = -117
	codeMoved          code = -118
	codeReadOnly       code = -119
	codeLocalSession   code = -120
	codeRequestTimeout code = -122
	codeNeedsLogin     code = -124
	codeQuota          code = -125
	codeThrottled      code = -127
)

// class is what a code means for the request that got it, and for what follows.
//
//	class         the request           what follows
//	internal      was not carried out   the caller of this package decides
//	denied        was not carried out   no attempt succeeds, because of a login
//	refused       was not carried out   no attempt succeeds
//	unavailable   is unknown            the connection fails, and another attempt may succeed
//	over          was not carried out   the session is over
type class string

const (
	classInternal    class = "internal"
	classDenied      class = "denied"
	classRefused     class = "refused"
	classUnavailable class = "unavailable"
	classOver        class = "over"
)

// class returns the class of a code. The code of a newer server that is not known here is a refusal: a request that
// no server carries out must not be sent for ever.
func (c code) class() class {
	switch c {
	case codeNoNode, codeNoAuth, codeBadVersion, codeNodeExists, codeNotEmpty:
		return classInternal
	case codeAuthFailed, codeNeedsLogin:
		return classDenied
	case codeSystemError, codeConnectionLoss, codeTimeout, codeRequestTimeout, codeThrottled, // the server is in trouble
		codeClosing, codeNothing, // only clients of ZooKeeper have these
		codeMoved,     // the session is on another connection
		codeNoSession, // the next handshake shows whether there is one
		codeReadOnly:  // a server without a quorum
		return classUnavailable
	case codeExpired:
		return classOver
	default:
		return classRefused
	}
}

// explain returns an error of the library, or another one, for a code, with what it means. What a user can change is
// named in the text: a setting of the servers, a login, a quota.
func (c code) explain(err error) error {
	switch c {
	case codeUnimplemented:
		return fmt.Errorf("%w: %w", ErrUnimplemented, err)
	case codeQuota:
		return fmt.Errorf("%w: %w", ErrQuota, err)
	case codeLocalSession:
		return fmt.Errorf("%w: %w", ErrLocalSession, err)
	case codeAuthFailed:
		return fmt.Errorf("%w: the login was refused: %w", driver.ErrDenied, err)
	case codeNeedsLogin:
		return fmt.Errorf("%w: the servers require a login that this session does not have: one of another scheme "+
			"(enforce.auth.schemes), or one by SASL, which this package does not have: %w", driver.ErrDenied, err)
	default:
		_, ok := valueless(err)
		if ok {
			err = fmt.Errorf("%w: %w", zk.ErrAPIError, err)
		}
		return err
	}
}

// serverError reports whether an error of the library is a server's answer, so that the request was not carried
// out. It returns the error. Where the library has no value for a code, only a text with the number, the error also
// wraps one that has a value.
func serverError(err error) (answered bool, _ error) {
	c, ok := codeOf(err)
	if !ok {
		return false, err
	}
	return c.class() != classUnavailable, c.explain(err)
}

// codeOf returns the code of which the library has made an error, if a server has sent one. The library keeps no
// number, so this is its own table (zk.errCodeToError) the other way round; a test holds the two together.
func codeOf(err error) (code, bool) {
	for _, known := range []struct {
		code
		error
	}{
		{-8, zk.ErrBadArguments},
		{-100, zk.ErrAPIError},
		{codeNoNode, zk.ErrNoNode},
		{codeNoAuth, zk.ErrNoAuth},
		{codeBadVersion, zk.ErrBadVersion},
		{-108, zk.ErrNoChildrenForEphemerals},
		{codeNodeExists, zk.ErrNodeExists},
		{codeNotEmpty, zk.ErrNotEmpty},
		{codeExpired, zk.ErrSessionExpired},
		{-114, zk.ErrInvalidACL},
		{codeAuthFailed, zk.ErrAuthFailed},
		{codeMoved, zk.ErrSessionMoved},
		{-123, zk.ErrReconfigDisabled},
	} {
		if errors.Is(err, known.error) {
			return known.code, true
		}
	}
	return valueless(err)
}

// valueless is codeOf for a code for which the library has no value.
func valueless(err error) (code, bool) {
	number, ok := strings.CutPrefix(err.Error(), "unknown error: ")
	n, err := strconv.ParseInt(number, 10, 32)
	return code(n), ok && err == nil
}

// lasting returns an answer of a server to a request that every connection begins with. An answer that the next
// connection would get too wraps driver.ErrDenied or driver.ErrRefused.
func lasting(err error) error {
	c, _ := codeOf(err)
	switch {
	case driver.Incurable(err), c == codeExpired:
		return err
	case c == codeNoAuth:
		return fmt.Errorf("%w: %w", driver.ErrDenied, err)
	}
	return fmt.Errorf("%w: %w", driver.ErrRefused, err)
}
