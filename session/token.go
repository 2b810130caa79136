package session

import (
	"fmt"
	"strconv"
)

// Token is a fencing token. It comes from the store's own sequence, and within one lock
// tokens rise in the order of grants, for as long as the store lives. A resource is
// safe only if it refuses every token lower than the highest that it has seen, from the
// first access of each hold on, reads included.
type Token int64

// TokenHeader is the HTTP header, and in lower case the gRPC metadata key, in which a
// client sends the token of its hold to a resource. Its value is Token.String.
const TokenHeader = "Fairlock-Token"

// String returns the token in decimal digits.
func (t Token) String() string { return strconv.FormatInt(int64(t), 10) }

// ParseToken returns the token whose String is text. It returns an error for any other
// text, and for a token below 1, which no hold has.
func ParseToken(text string) (Token, error) {
	n, err := strconv.ParseInt(text, 10, 64)
	t := Token(n)
	if err == nil && n > 0 && t.String() == text {
		return t, nil
	}
	return 0, fmt.Errorf("session: %.64q is not a fencing token: a token is the decimal digits of a number above 0", text)
}
