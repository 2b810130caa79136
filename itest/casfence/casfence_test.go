package casfence

import (
	"context"
	"errors"
	"io/fs"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/casfence"
	"github.com/fairlock/fairlock/internal/fencetest"
	"github.com/fairlock/fairlock/session"
)

// onEach runs a test on a store of each kind.
func onEach(t *testing.T, test func(t *testing.T, address string)) {
	for name, start := range stores() {
		t.Run(name, func(t *testing.T) { test(t, start(t)) })
	}
}

func TestABucketPutsOnlyWhatIsStillThere(t *testing.T) {
	onEach(t, func(t *testing.T, address string) {
		b, err := newBucket(t.Context(), address)
		require.NoError(t, err)
		absent, err := b.Get(t.Context(), "may")
		require.NoError(t, err)
		assert.Equal(t, casfence.Object{}, absent)
		first := casfence.Object{Marks: fence.Marks{Exclusive: 5}, ContentType: "text/plain", Metadata: map[string]string{"owner": "ada"}}
		require.NoError(t, b.Put(t.Context(), "may", first))
		require.ErrorIs(t, b.Put(t.Context(), "may", first), casfence.ErrChanged, "it is there now")

		got, err := b.Get(t.Context(), "may")
		require.NoError(t, err)
		assert.Equal(t, first.Marks, got.Marks)
		assert.False(t, got.Written)
		assert.Equal(t, "text/plain", got.ContentType)
		assert.Equal(t, "ada", got.Metadata["owner"])
		got.Marks.Shared = 7
		require.NoError(t, b.Put(t.Context(), "may", got), "only the marks are others")
		got.Data, got.Written = []byte("late"), true
		require.ErrorIs(t, b.Put(t.Context(), "may", got), casfence.ErrChanged, "the version covers the marks")

		got, err = b.Get(t.Context(), "may")
		require.NoError(t, err)
		assert.Equal(t, fence.Marks{Exclusive: 5, Shared: 7}, got.Marks)
		got.Data, got.Written = []byte("data"), true
		require.NoError(t, b.Put(t.Context(), "may", got))
		got, err = b.Get(t.Context(), "may")
		require.NoError(t, err)
		assert.Equal(t, "data", string(got.Data))
		assert.True(t, got.Written)
		assert.Equal(t, "text/plain", got.ContentType)
	})
}

func TestAnObjectOfBeforeGetsItsMarksByTheFirstAccess(t *testing.T) {
	url := strings.TrimPrefix(newS3(t), "s3 ")
	name, key := bucketName, "may"
	_, err := s3Client(url).PutObject(t.Context(), &s3.PutObjectInput{Bucket: &name, Key: &key, Body: strings.NewReader("old")})
	require.NoError(t, err)
	b, err := newBucket(t.Context(), "s3 "+url)
	require.NoError(t, err)

	data, err := casfence.Read(t.Context(), b, key, 7, session.Exclusive)

	require.NoError(t, err)
	assert.Equal(t, "old", string(data))
	require.ErrorIs(t, casfence.Write(t.Context(), b, key, nil, 6), fence.ErrStale)
}

// Why the marks are in the body on S3: its condition does not see metadata.
func TestTheETagDoesNotCoverMetadata(t *testing.T) {
	c := s3Client(strings.TrimPrefix(newS3(t), "s3 "))
	name, key := bucketName, "may"
	put := func(mark string, condition *string) (*s3.PutObjectOutput, error) {
		return c.PutObject(t.Context(), &s3.PutObjectInput{
			Bucket: &name, Key: &key, Body: strings.NewReader("data"), Metadata: map[string]string{"mark": mark}, IfMatch: condition,
		})
	}
	five, err := put("5", nil)
	require.NoError(t, err)
	_, err = put("7", five.ETag)
	require.NoError(t, err)

	_, err = put("5", five.ETag)

	require.NoError(t, err, "a stale holder passes, and takes the mark back")
}

func TestAnErrorOfTheStoreIsNoStaleToken(t *testing.T) {
	onEach(t, func(t *testing.T, address string) {
		b, err := newBucket(t.Context(), address)
		require.NoError(t, err)
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)

		_, err = casfence.Read(ctx, b, "may", 7, session.Exclusive)

		require.ErrorIs(t, err, cause)
		_, err = casfence.Read(t.Context(), b, "may", 1, session.Exclusive)
		require.ErrorIs(t, err, fs.ErrNotExist, "nothing was recorded")
	})
}

func TestFencedWritesAloneLoseUpdatesAndFencedFirstTouchesDoNot(t *testing.T) {
	onEach(t, func(t *testing.T, address string) { fencetest.TestOrders(t, open, address) })
}

func TestALoadWithStopsAndKillsLosesNoUpdate(t *testing.T) {
	onEach(t, func(t *testing.T, address string) { fencetest.TestLoad(t, open, address) })
}
