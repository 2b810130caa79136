// Tusd is a server of resumable uploads, of which several processes serve one folder. A client
// whose connection breaks resumes at any of them: its new request ends the old one, wherever
// that is served.
//
//	TUSD_ETCD=127.0.0.1:2379 go run ./examples/tusd -listen 127.0.0.1:8080 -data DIR
package main

import (
	"context"
	"errors"
	"flag"
	"log"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/tus/tusd/v2/pkg/filestore"
	"github.com/tus/tusd/v2/pkg/handler"

	"github.com/fairlock/fairlock/etcdbackend"
	"github.com/fairlock/fairlock/session"
)

func main() {
	listen := flag.String("listen", "127.0.0.1:8080", "where to serve")
	data := flag.String("data", ".", "the folder of the uploads, which all processes share")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	err := run(ctx, strings.Split(os.Getenv("TUSD_ETCD"), ","), *listen, *data)
	if err != nil {
		log.Fatal(err)
	}
}

// run serves until ctx ends.
func run(ctx context.Context, etcd []string, listen, data string) error {
	s, err := etcdbackend.Dial(ctx, etcdbackend.DialConfig{Endpoints: etcd}, nil)
	if err != nil {
		return err
	}
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", listen)
	if err != nil {
		return errors.Join(err, s.Close())
	}
	return errors.Join(serve(ctx, l, s, data), s.Close())
}

// serve serves until ctx ends. The end interrupts the uploads under way: tusd stores what has
// come of them, and unlocks.
func serve(ctx context.Context, l net.Listener, s *session.Session, data string) error {
	composer := handler.NewStoreComposer()
	filestore.New(data).UseIn(composer)
	composer.UseLocker(Locker{s})
	uploads, err := handler.NewHandler(handler.Config{BasePath: "/files/", StoreComposer: composer})
	if err != nil {
		return errors.Join(err, l.Close())
	}
	server := &http.Server{
		Handler: http.StripPrefix("/files/", uploads), ReadHeaderTimeout: 10 * time.Second,
		BaseContext: func(net.Listener) context.Context { return handlerContext(ctx) },
	}
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
	defer cancel()
	return server.Shutdown(grace)
}

// handlerContext returns the context of all requests. It ends with ctx, by the error for which
// tusd stores what has come.
func handlerContext(ctx context.Context) context.Context {
	requests, end := context.WithCancelCause(context.WithoutCancel(ctx))
	context.AfterFunc(ctx, func() { end(handler.ErrServerShutdown) })
	return requests
}
