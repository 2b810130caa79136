package doctor

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/connect"
	"github.com/fairlock/fairlock/internal/schema"
)

// serverTimeout bounds the request for the status of one server.
const serverTimeout = 2 * time.Second

// Etcd asks every server for its status, and the cluster for its alarms. It needs no
// session: none can be opened while an alarm is raised.
func Etcd(ctx context.Context, t *connect.Target) []schema.Finding {
	secure, err := t.TLS()
	password, wrong := t.Password()
	err = errors.Join(err, wrong)
	if err != nil {
		return []schema.Finding{schema.NewFinding(alarms, schema.Bad, err.Error())}
	}
	client, err := dialEtcd(ctx, clientv3.Config{
		Endpoints: t.Address.Hosts, TLS: secure, Username: t.Options.Username, Password: password,
		DialTimeout: min(serverTimeout, t.Within()), Logger: zap.NewNop(),
	})
	if err != nil {
		return []schema.Finding{schema.NewFinding(alarms, schema.Bad, "no server could be asked for alarms: "+err.Error())}
	}
	defer func() { _ = client.Close() }()
	var all []schema.Finding
	leaders := map[uint64]bool{}
	timeout := min(serverTimeout, t.Within())
	answered := false
	for _, host := range client.Endpoints() {
		bounded, cancel := context.WithTimeout(ctx, timeout)
		status, err := client.Status(bounded, host)
		if err != nil && !denied(err) { // the client reports only that it timed out
			err = errors.New(connect.Probe(ctx, host, secure))
		}
		cancel()
		all = append(all, judgeMember(host, status, err)...)
		answered = answered || err == nil || denied(err)
		if err == nil {
			leaders[status.Leader] = true
		}
	}
	if len(leaders) > 1 {
		all = append(all, schema.NewFinding(alarms, schema.Warn, "the servers do not agree on the leader: there is an election, or a network that is cut"))
	}
	if !answered { // each server has a finding already
		return all
	}
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	return append(all, alarmFindings(ctx, client)...)
}

// dialEtcd creates a client, which logs in. clientv3.New takes no context; the timeout of
// cfg bounds it.
func dialEtcd(ctx context.Context, cfg clientv3.Config) (*clientv3.Client, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return clientv3.New(cfg)
}

// judgeMember returns the findings from the status of a server.
func judgeMember(host string, s *clientv3.StatusResponse, err error) []schema.Finding {
	switch {
	case denied(err):
		return []schema.Finding{schema.NewFinding(alarms, schema.Warn, host+" does not report its status to this user")}
	case err != nil:
		f := schema.NewFinding(connection, schema.Bad, host+" does not report its status: "+err.Error())
		f.Advice = "the cluster survives this failure, but not a second one"
		return []schema.Finding{f}
	}
	var all []schema.Finding
	bad := func(advice, format string, args ...any) {
		f := schema.NewFinding(alarms, schema.Bad, fmt.Sprintf(format, args...))
		f.Advice = advice
		all = append(all, f)
	}
	if s.Leader == 0 {
		bad("without a quorum nothing can be locked, and holds are lost", "%s knows of no leader", host)
	}
	if s.DbSizeQuota > 0 && s.DbSize > s.DbSizeQuota/10*8 {
		bad("compact and defragment before the quota is used up: then nothing can be locked", "the database of %s has %d MB of its quota of %d", host, s.DbSize>>20, s.DbSizeQuota>>20)
	}
	for _, e := range s.Errors {
		if !strings.Contains(e, "alarm") && !strings.Contains(e, "no leader") && !strings.Contains(e, "NOSPACE") {
			bad("", "%s reports: %s", host, e)
		}
	}
	if len(all) == 0 {
		return []schema.Finding{schema.NewFinding(alarms, schema.Good, fmt.Sprintf("%s is well: etcd %s, %d MB, term %d", host, s.Version, s.DbSize>>20, s.RaftTerm))}
	}
	return all
}

// alarmFindings returns a finding for each kind of alarm of the cluster.
func alarmFindings(ctx context.Context, client *clientv3.Client) []schema.Finding {
	resp, err := client.AlarmList(ctx)
	switch {
	case denied(err):
		return []schema.Finding{schema.NewFinding(alarms, schema.Warn, "this user may not ask for alarms")}
	case err != nil:
		return []schema.Finding{schema.NewFinding(alarms, schema.Warn, "the cluster does not report its alarms: "+plain(err))}
	}
	var kinds []string
	for _, a := range resp.Alarms {
		kinds = append(kinds, a.Alarm.String())
	}
	slices.Sort(kinds)
	var all []schema.Finding
	for _, kind := range slices.Compact(kinds) {
		f := schema.NewFinding(alarms, schema.Bad, "the alarm "+kind+" is raised")
		f.Advice = "repair or replace the member"
		if kind == etcdserverpb.AlarmType_NOSPACE.String() {
			f.Advice = "nothing can be locked: compact, defragment, then etcdctl alarm disarm"
		}
		all = append(all, f)
	}
	return all
}

func denied(err error) bool {
	err = rpctypes.Error(err)
	for _, d := range []error{rpctypes.ErrPermissionDenied, rpctypes.ErrUserEmpty, rpctypes.ErrInvalidAuthToken, rpctypes.ErrAuthFailed} {
		if errors.Is(err, d) {
			return true
		}
	}
	return false
}

// plain returns the text of an error without gRPC's prefix.
func plain(err error) string {
	s := err.Error()
	i := strings.LastIndex(s, "desc = ")
	if i >= 0 {
		s = s[i+len("desc = "):]
	}
	return strings.Trim(s, `"`)
}
