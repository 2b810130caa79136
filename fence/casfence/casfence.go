package casfence

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/session"
)

// ErrChanged is what a Bucket returns if the object is not the one that was read. No caller of
// Read and Write sees it.
var ErrChanged = errors.New("the object was changed")

// Object is the content of an object with its marks. The zero Object stands for none.
type Object struct {
	Data []byte

	// Written is false for an object that has only marks: nothing has written Data.
	Written bool

	// Marks are the highest tokens that the object has seen.
	Marks fence.Marks

	// ContentType and Metadata are of the program. Metadata has no entries of this package.
	ContentType string
	Metadata    map[string]string

	// Version changes whenever Data or Marks change, and is never that of an earlier object with
	// lower marks. "" means that there is no object.
	Version string
}

// Bucket is a store that writes under a condition. Its methods are safe for concurrent use.
type Bucket interface {
	// Get returns an object of one moment, not older than any Put that was acknowledged before.
	// It returns the zero Object if there is none, and may return ErrChanged if it cannot get
	// one of a single moment.
	Get(ctx context.Context, key string) (Object, error)

	// Put replaces the object whose version is o.Version by o, or creates it if that is "". It
	// returns ErrChanged, and changes nothing, if the store has another version. After another
	// error the outcome is unknown.
	Put(ctx context.Context, key string, o Object) error
}

// Read returns the data of an object if the token is not outbid, and records the token. If
// nothing was written yet, it records the token all the same and returns an error that is
// fs.ErrNotExist. A token that is outbid is a *fence.StaleError.
func Read(ctx context.Context, b Bucket, key string, t session.Token, mode session.Mode) ([]byte, error) {
	o, err := update(ctx, b, key, t, mode, nil)
	if err == nil && !o.Written {
		err = fmt.Errorf("casfence: read %q: %w", key, fs.ErrNotExist)
	}
	return o.Data, err
}

// Write replaces the data of an object if the token is not outbid, and records the token, which is
// that of an exclusive hold. It keeps the object's content type and metadata. Writing again
// with the same token is allowed, so a caller that does not know the outcome may repeat the Write.
func Write(ctx context.Context, b Bucket, key string, data []byte, t session.Token) error {
	_, err := update(ctx, b, key, t, session.Exclusive, func(o *Object) {
		o.Data, o.Written = data, true
	})
	return err
}

// update puts an object back with a token recorded and a change made. Without a change, and if the
// token is recorded already, it puts nothing. It begins again when another access came between:
// each time, that access has got further.
func update(ctx context.Context, b Bucket, key string, t session.Token, mode session.Mode, change func(*Object)) (Object, error) {
	for {
		if ctx.Err() != nil {
			return Object{}, fmt.Errorf("casfence: %q: %w", key, context.Cause(ctx))
		}
		o, err := b.Get(ctx, key)
		if errors.Is(err, ErrChanged) {
			continue
		}
		if err != nil {
			return Object{}, fmt.Errorf("casfence: get %q: %w", key, err)
		}
		after, err := o.Marks.Touch(t, mode)
		if err != nil {
			return Object{}, fmt.Errorf("casfence: %q: %w", key, err)
		}
		if after == o.Marks && change == nil {
			return o, nil
		}
		o.Marks = after
		if change != nil {
			change(&o)
		}
		err = b.Put(ctx, key, o)
		if errors.Is(err, ErrChanged) {
			continue
		}
		if err != nil {
			return Object{}, fmt.Errorf("casfence: put %q: %w", key, err)
		}
		return o, nil
	}
}
