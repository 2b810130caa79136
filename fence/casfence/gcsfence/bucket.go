// Package gcsfence is the Bucket of casfence for Google Cloud Storage: it writes with a generation
// precondition.
//
//	bucket := gcsfence.New(client.Bucket("reports"))
//	data, err := casfence.Read(ctx, bucket, "may.json", h.Token(), h.Mode())
//
// The marks are in the metadata of the object, as fairlock-exclusive and fairlock-shared, so other
// programs read the object as ever. The first access of a hold writes the object anew, with its
// data: so each mark has a generation, which is the condition of the next write. A program that
// removes these metadata lets stale holds in. Google Cloud Storage takes about one write of an
// object in a second, and the first access of each hold is one.
package gcsfence

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"strconv"

	"cloud.google.com/go/storage"
	"google.golang.org/api/googleapi"

	"github.com/fairlock/fairlock/fence/casfence"
	"github.com/fairlock/fairlock/session"
)

// The metadata of this package.
const (
	exclusiveKey = "fairlock-exclusive"
	sharedKey    = "fairlock-shared"
	emptyKey     = "fairlock-empty" // nothing was written
)

// Bucket is a bucket of Google Cloud Storage. It implements casfence.Bucket.
type Bucket struct{ handle *storage.BucketHandle }

// New returns a bucket.
func New(handle *storage.BucketHandle) *Bucket { return &Bucket{handle} }

// Get implements casfence.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (o casfence.Object, err error) {
	attrs, err := b.handle.Object(key).Attrs(ctx)
	if errors.Is(err, storage.ErrObjectNotExist) {
		return o, nil
	}
	if err != nil {
		return o, fmt.Errorf("gcsfence: %w", err)
	}
	o = casfence.Object{
		Written: attrs.Metadata[emptyKey] == "", ContentType: attrs.ContentType, Metadata: maps.Clone(attrs.Metadata),
		Version: strconv.FormatInt(attrs.Generation, 10),
	}
	o.Marks.Exclusive, err = take(o.Metadata, exclusiveKey)
	if err == nil {
		o.Marks.Shared, err = take(o.Metadata, sharedKey)
	}
	if err != nil {
		return o, err
	}
	delete(o.Metadata, emptyKey)
	r, err := b.handle.Object(key).Generation(attrs.Generation).NewReader(ctx)
	if errors.Is(err, storage.ErrObjectNotExist) {
		return o, casfence.ErrChanged // that generation is gone
	}
	if err == nil {
		o.Data, err = io.ReadAll(r)
		err = errors.Join(err, r.Close())
	}
	if err != nil {
		return o, fmt.Errorf("gcsfence: %w", err)
	}
	return o, nil
}

// take removes a mark from the metadata of an object, and returns it: 0 if there is none.
func take(metadata map[string]string, key string) (session.Token, error) {
	text, ok := metadata[key]
	if !ok {
		return 0, nil
	}
	delete(metadata, key)
	t, err := session.ParseToken(text)
	if err != nil {
		return 0, fmt.Errorf("gcsfence: metadata %q: %w", key, err)
	}
	return t, nil
}

// Put implements casfence.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, o casfence.Object) error {
	condition := storage.Conditions{DoesNotExist: true}
	if o.Version != "" {
		generation, err := strconv.ParseInt(o.Version, 10, 64)
		if err != nil {
			return fmt.Errorf("gcsfence: version: %w", err)
		}
		condition = storage.Conditions{GenerationMatch: generation}
	}
	ctx, cancel := context.WithCancel(ctx) // which ends an upload without its object
	defer cancel()
	w := b.handle.Object(key).If(condition).NewWriter(ctx)
	w.ContentType = o.ContentType
	w.Metadata = maps.Clone(o.Metadata)
	if w.Metadata == nil {
		w.Metadata = map[string]string{}
	}
	put(w.Metadata, exclusiveKey, o.Marks.Exclusive)
	put(w.Metadata, sharedKey, o.Marks.Shared)
	if !o.Written {
		w.Metadata[emptyKey] = "true"
	}
	_, err := w.Write(o.Data)
	if err != nil {
		return fmt.Errorf("gcsfence: %w", err)
	}
	err = w.Close()
	failed, ok := errors.AsType[*googleapi.Error](err)
	if ok && failed.Code == http.StatusPreconditionFailed {
		return casfence.ErrChanged
	}
	if err != nil {
		return fmt.Errorf("gcsfence: %w", err)
	}
	return nil
}

func put(metadata map[string]string, key string, t session.Token) {
	if t != 0 {
		metadata[key] = t.String()
	}
}
