// Package casfence checks fencing tokens at objects of stores that write under a condition: only
// if the object is still the one that was read. Packages s3fence and gcsfence, each a module of its
// own, are the Bucket of Amazon S3 and of Google Cloud Storage.
//
//	data, err := casfence.Read(ctx, bucket, "report", h.Token(), h.Mode())
//	…
//	err = casfence.Write(ctx, bucket, "report", data, h.Token())
//
// The marks are in the object, so they are replaced with it, in one step, and the condition of that
// step covers them. The rules are those of package fence: the first access of each hold shows its
// token, even if it only reads. So the first Read of a hold writes: it puts the object back with a
// higher mark. Later ones of that hold only read. If there is no object yet, the first Read leaves
// one that is empty, and which Read reports as fs.ErrNotExist.
//
// # Without a token
//
// The condition alone also protects an update: a holder that keeps the version from its read to
// its write, and gives up when the object was changed, loses no update, and needs no lock for
// that. A token is for what is more than one such step: work that begins with a read and ends with
// a write in another function, or several objects, or holders that must not begin work that
// cannot be finished.
//
// # Limits
//
// A first Read transfers the object twice. For large objects, fence a small one that names them.
//
// A request whose answer is lost may have been carried out, and clients of object stores repeat it
// themselves. So after an error, and also after a *fence.StaleError, a write of this call can be
// in the object: then the newer hold has seen it, or has overwritten it after it was seen.
//
// A program that writes the object without this package is not checked, and removes the marks.
// Of the attributes of an object, its content type and its own metadata are kept, and no others.
package casfence
