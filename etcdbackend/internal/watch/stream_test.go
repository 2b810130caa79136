package watch

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc"
	"google.golang.org/grpc/status"

	"github.com/fairlock/fairlock/etcdbackend/internal/rpc"
	"github.com/fairlock/fairlock/session/driver"
)

// failing is a stream whose Send fails, or blocks, while Recv blocks.
type failing struct {
	pb.Watch_WatchClient
	ctx    context.Context //nolint:containedctx // the stream's
	blocks bool
}

func (s failing) Send(*pb.WatchRequest) error {
	if s.blocks {
		<-s.ctx.Done()
	}
	return io.EOF
}

func (s failing) Recv() (*pb.WatchResponse, error) {
	<-s.ctx.Done()
	return nil, status.FromContextError(s.ctx.Err()).Err()
}

// failingService opens such streams.
type failingService struct {
	opened chan struct{}
	blocks bool
}

func (d failingService) Watch(ctx context.Context, _ ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	select {
	case d.opened <- struct{}{}:
	case <-ctx.Done():
	}
	return failing{ctx: ctx, blocks: d.blocks}, nil
}

// TestStreamThatTakesNoRequestsIsReplaced: where grpc has repeated a stream on another
// connection, Send can fail while Recv goes on. Where a server takes nothing, it blocks as soon
// as grpc's buffers are full.
func TestStreamThatTakesNoRequestsIsReplaced(t *testing.T) {
	for name, blocks := range map[string]bool{"Send fails": false, "Send blocks": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				streams := failingService{opened: make(chan struct{}), blocks: blocks}
				h := New(Config{
					Send:  &rpc.Sender{Client: &rpc.Client{Clock: driver.SystemClock(), Watch: streams}},
					Quiet: time.Second, Logger: slog.New(slog.DiscardHandler),
				})
				h.Watch(entry(10), func(driver.Event) {})
				<-streams.opened
				began := time.Now()
				select {
				case <-streams.opened:
					assert.Equal(t, blocks, time.Since(began) > h.Quiet)
				case <-time.After(time.Minute):
					assert.Fail(t, "the stream is kept")
				}
				h.Stop()
				h.Wait()
			})
		})
	}
}

// loginService opens streams whose login is refused at the second watch, or at the first.
type loginService struct {
	confirms bool // the first watch of each stream
	opened   int
}

func (d *loginService) Watch(ctx context.Context, _ ...grpc.CallOption) (pb.Watch_WatchClient, error) {
	d.opened++
	return &loginStream{ctx: ctx, confirms: d.confirms, asked: make(chan int64, 1)}, nil
}

type loginStream struct {
	pb.Watch_WatchClient
	ctx      context.Context //nolint:containedctx // the stream's
	confirms bool
	asked    chan int64
}

func (s *loginStream) Send(r *pb.WatchRequest) error {
	if c := r.GetCreateRequest(); c != nil {
		s.asked <- c.WatchId
	}
	return nil
}

func (s *loginStream) Recv() (*pb.WatchResponse, error) {
	header := &pb.ResponseHeader{Revision: 7}
	if s.confirms {
		s.confirms = false
		id := <-s.asked
		s.asked <- id
		return &pb.WatchResponse{Created: true, WatchId: id, Header: header}, nil
	}
	select {
	case <-s.asked:
		reason := rpctypes.ErrorDesc(rpctypes.ErrGRPCUserEmpty)
		return &pb.WatchResponse{Created: true, Canceled: true, WatchId: -1, Header: header, CancelReason: reason}, nil
	case <-s.ctx.Done():
		return nil, status.FromContextError(s.ctx.Err()).Err()
	}
}

// A login that has expired is replaced at once, and is not worth a line in the log. One that
// each stream is refused is.
func TestStreamsWhoseLoginIsNeverAcceptedAreMadeSeldom(t *testing.T) {
	for name, c := range map[string]struct {
		confirms    bool
		least, most int // streams in ten seconds
		lines       int
	}{
		"never accepted":       {false, 10, 50, 1},
		"accepted, then stale": {true, 900, 3000, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var log strings.Builder
				streams := &loginService{confirms: c.confirms}
				h := New(Config{
					Send:  &rpc.Sender{Client: &rpc.Client{Clock: &clock{Clock: driver.SystemClock(), now: driver.Instant(time.Hour)}, Watch: streams}},
					Quiet: time.Hour, Logger: slog.New(slog.NewTextHandler(&log, nil)),
				})
				whole := Target{Spec: Spec{Key: "r/x/", End: "r/x0", Puts: true}, Queue: "x"}
				h.Reported, h.Floor = func(*Target, driver.EventKind, int64) {}, func(string) int64 { return 0 }
				h.Watch(whole, func(driver.Event) {})
				time.Sleep(10 * time.Second)
				synctest.Wait()
				h.Stop()
				h.Wait()
				assert.GreaterOrEqual(t, streams.opened, c.least)
				assert.LessOrEqual(t, streams.opened, c.most)
				assert.Equal(t, c.lines, strings.Count(log.String(), "\n"), log.String())
			})
		})
	}
}
