package casfence

import (
	"context"
	"errors"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"testing"

	"cloud.google.com/go/storage"
	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/fsouza/fake-gcs-server/fakestorage"
	"github.com/johannesboyne/gofakes3"
	"github.com/johannesboyne/gofakes3/backend/s3mem"
	"github.com/stretchr/testify/require"
	"google.golang.org/api/option"

	"github.com/fairlock/fairlock/fence/casfence"
	"github.com/fairlock/fairlock/fence/casfence/gcsfence"
	"github.com/fairlock/fairlock/fence/casfence/s3fence"
	"github.com/fairlock/fairlock/internal/fencetest"
	"github.com/fairlock/fairlock/session"
)

const bucketName = "reports"

func TestMain(m *testing.M) { os.Exit(fencetest.Main(m, open)) }

// stores are the object stores of the tests, by what their addresses begin with.
func stores() map[string]func(testing.TB) string {
	return map[string]func(testing.TB) string{"s3": newS3, "gcs": newGCS}
}

// newS3 starts a store with the interface of S3, and returns its address.
func newS3(t testing.TB) string {
	t.Helper()
	backend := s3mem.New()
	require.NoError(t, backend.CreateBucket(bucketName))
	server := httptest.NewServer(gofakes3.New(backend, gofakes3.WithLogger(gofakes3.DiscardLog())).Server())
	t.Cleanup(server.Close)
	return "s3 " + server.URL
}

// newGCS starts a store with the interface of Google Cloud Storage, and returns its address.
func newGCS(t testing.TB) string {
	t.Helper()
	server, err := fakestorage.NewServerWithOptions(fakestorage.Options{Scheme: "http", Host: "127.0.0.1", Port: 0})
	require.NoError(t, err)
	t.Cleanup(server.Stop)
	server.CreateBucketWithOpts(fakestorage.CreateBucketOpts{Name: bucketName})
	return "gcs " + server.URL()
}

// newBucket returns the bucket of a store.
func newBucket(ctx context.Context, address string) (casfence.Bucket, error) {
	kind, url, _ := strings.Cut(address, " ")
	if kind == "s3" {
		return s3fence.New(s3Client(url), bucketName), nil
	}
	client, err := storage.NewClient(ctx, option.WithEndpoint(url+"/storage/v1/"), option.WithHTTPClient(http.DefaultClient), storage.WithJSONReads())
	if err != nil {
		return nil, err
	}
	return gcsfence.New(client.Bucket(bucketName)), nil
}

func s3Client(url string) *s3.Client {
	return s3.New(s3.Options{
		BaseEndpoint: &url, Region: "here", UsePathStyle: true,
		Credentials: aws.CredentialsProviderFunc(func(context.Context) (aws.Credentials, error) {
			return aws.Credentials{AccessKeyID: "of a test", SecretAccessKey: "of a test"}, nil
		}),
	})
}

// open returns a client of the load.
func open(ctx context.Context, address string, k fencetest.Kind) (fencetest.Client, error) {
	b, err := newBucket(ctx, address)
	if k == fencetest.Plain {
		return plain{b}, err
	}
	return checked{b}, err
}

type checked struct{ casfence.Bucket }

func (c checked) Read(ctx context.Context, resource string, t session.Token) (string, error) {
	data, err := casfence.Read(ctx, c, resource, t, session.Exclusive)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return string(data), err
}

func (c checked) Write(ctx context.Context, resource string, t session.Token, value string) error {
	return casfence.Write(ctx, c, resource, []byte(value), t)
}

// plain puts without a check: whatever was changed since, it puts its value over that.
type plain struct{ casfence.Bucket }

func (c plain) Read(ctx context.Context, resource string, _ session.Token) (string, error) {
	o, err := c.Get(ctx, resource)
	for errors.Is(err, casfence.ErrChanged) {
		o, err = c.Get(ctx, resource)
	}
	return string(o.Data), err
}

func (c plain) Write(ctx context.Context, resource string, _ session.Token, value string) error {
	err := casfence.ErrChanged
	for errors.Is(err, casfence.ErrChanged) {
		var o casfence.Object
		o, err = c.Get(ctx, resource)
		if err == nil {
			o.Data, o.Written = []byte(value), true
			err = c.Put(ctx, resource, o)
		}
	}
	return err
}
