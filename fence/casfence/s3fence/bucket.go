// Package s3fence is the Bucket of casfence for Amazon S3, and for other stores with its
// conditional writes: PutObject with If-Match and If-None-Match.
//
//	bucket := s3fence.New(s3.NewFromConfig(config), "reports")
//	data, err := casfence.Read(ctx, bucket, "may.json", h.Token(), h.Mode())
//
// # The marks are in the body
//
// The condition of S3 is the ETag, and the ETag of an object that was put in one part is the hash
// of its body: it is the same if only the metadata were changed. So marks in the metadata would
// not be protected by the condition, and a stale write would pass. They are in the first line of
// the body. Data returns the rest of a body, for programs that read the object without a token.
// An object without that line has no marks yet, and gets them by its first access.
//
// # Needs
//
// A store that ignores the conditions protects nothing. Amazon S3 has both since November 2024.
// Try another store before you trust it: two Puts with If-None-Match: * of one key, of which the
// second must fail with 412. The login needs s3:GetObject, s3:PutObject and s3:ListBucket; without
// the last, S3 reports an object that is not there as forbidden.
package s3fence

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/aws/aws-sdk-go-v2/service/s3"
	"github.com/aws/aws-sdk-go-v2/service/s3/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"

	"github.com/fairlock/fairlock/fence/casfence"
)

// API is what a Bucket needs of an s3.Client.
type API interface {
	// GetObject and PutObject are those of s3.Client.
	GetObject(ctx context.Context, in *s3.GetObjectInput, opts ...func(*s3.Options)) (*s3.GetObjectOutput, error)
	// PutObject must send IfMatch and IfNoneMatch.
	PutObject(ctx context.Context, in *s3.PutObjectInput, opts ...func(*s3.Options)) (*s3.PutObjectOutput, error)
}

// Bucket is a bucket of S3. It implements casfence.Bucket.
type Bucket struct {
	client API
	name   string
}

// New returns the bucket of a name.
func New(client API, name string) *Bucket { return &Bucket{client, name} }

// Get implements casfence.Bucket.
func (b *Bucket) Get(ctx context.Context, key string) (o casfence.Object, err error) {
	out, err := b.client.GetObject(ctx, &s3.GetObjectInput{Bucket: &b.name, Key: &key})
	_, absent := errors.AsType[*types.NoSuchKey](err)
	if absent {
		return o, nil
	}
	if err != nil {
		return o, fmt.Errorf("s3fence: %w", err)
	}
	defer func() { _ = out.Body.Close() }()
	body, err := io.ReadAll(out.Body)
	if err != nil {
		return o, fmt.Errorf("s3fence: %w", err)
	}
	if out.ETag == nil || *out.ETag == "" {
		return o, errors.New("s3fence: the store returns no ETag")
	}
	o = parse(body)
	o.Version, o.Metadata = *out.ETag, out.Metadata
	if out.ContentType != nil {
		o.ContentType = *out.ContentType
	}
	return o, nil
}

// Put implements casfence.Bucket.
func (b *Bucket) Put(ctx context.Context, key string, o casfence.Object) error {
	in := &s3.PutObjectInput{Bucket: &b.name, Key: &key, Body: bytes.NewReader(format(o)), Metadata: o.Metadata}
	if o.ContentType != "" {
		in.ContentType = &o.ContentType
	}
	absent := "*"
	if o.Version == "" {
		in.IfNoneMatch = &absent
	} else {
		in.IfMatch = &o.Version
	}
	_, err := b.client.PutObject(ctx, in)
	if changed(err) {
		return casfence.ErrChanged
	}
	if err != nil {
		return fmt.Errorf("s3fence: %w", err)
	}
	return nil
}

// changed reports whether S3 has refused a write because of its condition: 412; 404 if the object
// of If-Match was deleted; or 409 if another conditional write is under way.
func changed(err error) bool {
	response, ok := errors.AsType[*smithyhttp.ResponseError](err)
	if !ok {
		return false
	}
	_, noBucket := errors.AsType[*types.NoSuchBucket](err)
	switch response.HTTPStatusCode() {
	case http.StatusPreconditionFailed, http.StatusConflict:
		return true
	case http.StatusNotFound:
		return !noBucket
	}
	return false
}
