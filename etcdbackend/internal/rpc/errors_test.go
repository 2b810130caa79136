package rpc

import (
	"context"
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/session/driver"
)

// verdict is an error, and what it proves about the request that it answers.
type verdict struct {
	err  error
	want Outcome
}

// served are the errors that etcd's servers can give, each with what it proves.
func served() map[string]verdict {
	return map[string]verdict{
		// It may have been done: the request is settled, and sent again.
		"ErrGRPCWatchCanceled":              {rpctypes.ErrGRPCWatchCanceled, Unknown},
		"ErrGRPCLeaderChanged":              {rpctypes.ErrGRPCLeaderChanged, Unknown},
		"ErrGRPCStopped":                    {rpctypes.ErrGRPCStopped, Unknown},
		"ErrGRPCTimeout":                    {rpctypes.ErrGRPCTimeout, Unknown},
		"ErrGRPCTimeoutDueToLeaderFail":     {rpctypes.ErrGRPCTimeoutDueToLeaderFail, Unknown},
		"ErrGRPCTimeoutDueToConnectionLost": {rpctypes.ErrGRPCTimeoutDueToConnectionLost, Unknown},
		"ErrGRPCTimeoutWaitAppliedIndex":    {rpctypes.ErrGRPCTimeoutWaitAppliedIndex, Unknown},
		"ErrGRPCCanceled":                   {rpctypes.ErrGRPCCanceled, Unknown},
		"ErrGRPCDeadlineExceeded":           {rpctypes.ErrGRPCDeadlineExceeded, Unknown},
		// Sent again, to another endpoint.
		"ErrGRPCFutureRev":              {rpctypes.ErrGRPCFutureRev, NotDone},
		"ErrGRPCRequestTooManyRequests": {rpctypes.ErrGRPCRequestTooManyRequests, NotDone},
		"ErrGRPCNoLeader":               {rpctypes.ErrGRPCNoLeader, NotDone},
		"ErrGRPCNotLeader":              {rpctypes.ErrGRPCNotLeader, NotDone},
		"ErrGRPCNotCapable":             {rpctypes.ErrGRPCNotCapable, NotDone},
		"ErrGRPCNotSupportedForLearner": {rpctypes.ErrGRPCNotSupportedForLearner, NotDone},
		// The client logs in again.
		"ErrGRPCInvalidAuthToken": {rpctypes.ErrGRPCInvalidAuthToken, BadToken},
		"ErrGRPCAuthOldRevision":  {rpctypes.ErrGRPCAuthOldRevision, BadToken},
		// The session is over.
		"ErrGRPCLeaseNotFound": {rpctypes.ErrGRPCLeaseNotFound, SessionOver},
		// Credentials are wrong, or a permission is missing.
		"ErrGRPCUserEmpty":        {rpctypes.ErrGRPCUserEmpty, Denied},
		"ErrGRPCUserNotFound":     {rpctypes.ErrGRPCUserNotFound, Denied},
		"ErrGRPCAuthFailed":       {rpctypes.ErrGRPCAuthFailed, Denied},
		"ErrGRPCPermissionDenied": {rpctypes.ErrGRPCPermissionDenied, Denied},
		// Sending it again does not help.
		"ErrGRPCEmptyKey":          {rpctypes.ErrGRPCEmptyKey, Refused},
		"ErrGRPCTooManyOps":        {rpctypes.ErrGRPCTooManyOps, Refused},
		"ErrGRPCDuplicateKey":      {rpctypes.ErrGRPCDuplicateKey, Refused},
		"ErrGRPCInvalidSortOption": {rpctypes.ErrGRPCInvalidSortOption, Refused},
		"ErrGRPCCompacted":         {rpctypes.ErrGRPCCompacted, Refused},
		"ErrGRPCLeaseExist":        {rpctypes.ErrGRPCLeaseExist, Refused},
		"ErrGRPCLeaseTTLTooLarge":  {rpctypes.ErrGRPCLeaseTTLTooLarge, Refused},
		"ErrGRPCRequestTooLarge":   {rpctypes.ErrGRPCRequestTooLarge, Refused},
		"ErrGRPCAuthNotEnabled":    {rpctypes.ErrGRPCAuthNotEnabled, Refused},
		"ErrGRPCCorrupt":           {rpctypes.ErrGRPCCorrupt, Refused},
		// The quota is used up.
		"ErrGRPCNoSpace": {rpctypes.ErrGRPCNoSpace, Full},

		// For requests that this library never sends.
		"ErrGRPCMemberNotFound":                {rpctypes.ErrGRPCMemberNotFound, Unknown},
		"ErrGRPCUnhealthy":                     {rpctypes.ErrGRPCUnhealthy, Unknown},
		"ErrGRPCKeyNotFound":                   {rpctypes.ErrGRPCKeyNotFound, Refused},
		"ErrGRPCValueProvided":                 {rpctypes.ErrGRPCValueProvided, Refused},
		"ErrGRPCLeaseProvided":                 {rpctypes.ErrGRPCLeaseProvided, Refused},
		"ErrGRPCInvalidClientAPIVersion":       {rpctypes.ErrGRPCInvalidClientAPIVersion, Refused},
		"ErrGRPCMemberExist":                   {rpctypes.ErrGRPCMemberExist, Refused},
		"ErrGRPCPeerURLExist":                  {rpctypes.ErrGRPCPeerURLExist, Refused},
		"ErrGRPCMemberNotEnoughStarted":        {rpctypes.ErrGRPCMemberNotEnoughStarted, Refused},
		"ErrGRPCMemberBadURLs":                 {rpctypes.ErrGRPCMemberBadURLs, Refused},
		"ErrGRPCMemberNotLearner":              {rpctypes.ErrGRPCMemberNotLearner, Refused},
		"ErrGRPCLearnerNotReady":               {rpctypes.ErrGRPCLearnerNotReady, Refused},
		"ErrGRPCTooManyLearners":               {rpctypes.ErrGRPCTooManyLearners, Refused},
		"ErrGRPCClusterIDMismatch":             {rpctypes.ErrGRPCClusterIDMismatch, Refused},
		"ErrGRPCRootUserNotExist":              {rpctypes.ErrGRPCRootUserNotExist, Refused},
		"ErrGRPCRootRoleNotExist":              {rpctypes.ErrGRPCRootRoleNotExist, Refused},
		"ErrGRPCUserAlreadyExist":              {rpctypes.ErrGRPCUserAlreadyExist, Refused},
		"ErrGRPCRoleAlreadyExist":              {rpctypes.ErrGRPCRoleAlreadyExist, Refused},
		"ErrGRPCRoleNotFound":                  {rpctypes.ErrGRPCRoleNotFound, Refused},
		"ErrGRPCRoleEmpty":                     {rpctypes.ErrGRPCRoleEmpty, Refused},
		"ErrGRPCPermissionNotGiven":            {rpctypes.ErrGRPCPermissionNotGiven, Refused},
		"ErrGRPCRoleNotGranted":                {rpctypes.ErrGRPCRoleNotGranted, Refused},
		"ErrGRPCPermissionNotGranted":          {rpctypes.ErrGRPCPermissionNotGranted, Refused},
		"ErrGRPCInvalidAuthMgmt":               {rpctypes.ErrGRPCInvalidAuthMgmt, Refused},
		"ErrGRPCBadLeaderTransferee":           {rpctypes.ErrGRPCBadLeaderTransferee, Refused},
		"ErrGRPCWrongDowngradeVersionFormat":   {rpctypes.ErrGRPCWrongDowngradeVersionFormat, Refused},
		"ErrGRPCInvalidDowngradeTargetVersion": {rpctypes.ErrGRPCInvalidDowngradeTargetVersion, Refused},
		"ErrGRPCClusterVersionUnavailable":     {rpctypes.ErrGRPCClusterVersionUnavailable, Refused},
		"ErrGRPCDowngradeInProcess":            {rpctypes.ErrGRPCDowngradeInProcess, Refused},
		"ErrGRPCNoInflightDowngrade":           {rpctypes.ErrGRPCNoInflightDowngrade, Refused},
	}
}

// TestEachErrorOfTheServersHasItsOutcome: the table has every error of package rpctypes, also one
// that a later version adds.
func TestEachErrorOfTheServersHasItsOutcome(t *testing.T) {
	dir, err := build.Import("go.etcd.io/etcd/api/v3/v3rpc/rpctypes", ".", build.FindOnly)
	require.NoError(t, err)
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(dir.Dir, "error.go"), nil, 0)
	require.NoError(t, err)
	known := 0
	ast.Inspect(file, func(n ast.Node) bool {
		v, ok := n.(*ast.ValueSpec)
		if ok && strings.HasPrefix(v.Names[0].Name, "ErrGRPC") && v.Names[0].Name != "ErrGRPCClusterIdMismatch" { // an old name
			known++
			assert.Contains(t, served(), v.Names[0].Name, "what does it prove?")
		}
		return true
	})
	assert.Len(t, served(), known)
	for name, v := range served() {
		assert.Equal(t, v.want, Classify(v.err), name)
		assert.Equal(t, v.want, Classify(rpctypes.Error(v.err)), "%s as the client returns it", name)
	}
}

// TestEachCodeHasItsOutcome: what a server answers without one of etcd's own texts, or a proxy in
// front of it, or gRPC itself.
func TestEachCodeHasItsOutcome(t *testing.T) {
	want := map[codes.Code]Outcome{
		codes.Canceled:           Unknown,
		codes.Unknown:            Unknown, // the server has panicked, for example
		codes.InvalidArgument:    Refused,
		codes.DeadlineExceeded:   Unknown,
		codes.NotFound:           Unknown,
		codes.AlreadyExists:      Unknown,
		codes.PermissionDenied:   Denied,
		codes.ResourceExhausted:  Unknown, // the answer is too long, and the request was done
		codes.FailedPrecondition: Refused,
		codes.Aborted:            Unknown,
		codes.OutOfRange:         Refused,
		codes.Unimplemented:      Refused, // the server is too old, or is another service
		codes.Internal:           Unknown,
		codes.Unavailable:        Unknown,
		codes.DataLoss:           Unknown,
		codes.Unauthenticated:    Denied,
	}
	for c := codes.Code(1); !strings.HasPrefix(c.String(), "Code("); c++ {
		require.Contains(t, want, c, "what does it prove?")
		assert.Equal(t, want[c], Classify(status.Error(c, "a text")), "%s", c)
	}
}

func TestOtherErrorsHaveTheirOutcomes(t *testing.T) {
	for _, v := range []verdict{
		{context.Canceled, Unknown},
		{context.DeadlineExceeded, Unknown},
		{errors.New("anything else"), Unknown},
		{fmt.Errorf("wrapped: %w", rpctypes.ErrTimeout), Unknown},
		{status.Error(codes.Unknown, "auth: authentication failed, password was given for no password user"), Denied},
		{status.Error(codes.Unknown, "auth: token signing attempted with verify-only key"), Denied},
	} {
		assert.Equal(t, v.want, Classify(v.err), "%v", v.err)
	}
}

func TestErrorsAreTranslatedAndKept(t *testing.T) {
	for _, c := range []struct{ err, want error }{
		{rpctypes.ErrPermissionDenied, driver.ErrDenied},
		{rpctypes.ErrInvalidAuthToken, driver.ErrDenied},
		{rpctypes.ErrCorrupt, driver.ErrRefused},
		{rpctypes.ErrNoSpace, driver.ErrRefused},
		{rpctypes.ErrLeaseNotFound, driver.ErrSessionOver},
		{rpctypes.ErrNoLeader, driver.ErrUnavailable},
		{rpctypes.ErrTimeout, driver.ErrUnavailable},
	} {
		err := Translate(c.err)
		assert.ErrorIs(t, err, c.want)
		assert.ErrorIs(t, err, c.err)
	}
	assert.ErrorContains(t, Translate(rpctypes.ErrNoSpace), "NOSPACE")
}
