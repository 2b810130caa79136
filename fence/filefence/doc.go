// Package filefence checks fencing tokens at files that several processes share. Read and
// Write replace os.ReadFile and os.WriteFile in the work of a hold:
//
//	data, err := filefence.Read(ctx, path, h.Token(), h.Mode())
//	…
//	err = filefence.Write(ctx, path, data, 0o644, h.Token())
//
// Each refuses a token that is outbid, by the rules of package fence, with a
// *fence.StaleError that has both tokens. A reader must call Read too: the first access of
// each hold makes the tokens of earlier holds stale, even if that access only reads.
//
// # Next to the file
//
// The marks of the file PATH are in PATH.fence. They belong to the data: copy, move and
// delete both together. PATH.fence.lock is a lock of the operating system, which makes the
// check and the access one step for all processes that use this package. It is empty and
// stays. PATH.fence.new is what an access was writing, and the next one overwrites it.
//
// # Crashes
//
// An access writes the mark before the data. Each is written to PATH.fence.new, synced to the
// disk, and renamed over its name; then the folder is synced. So after a crash of the process
// or the machine, the file has its old or its new content, whole, and the mark is at least as
// high as that content's. If the mark came through and the data did not, earlier holds are
// stale already, which harms nothing. An error after the rename can mean that the data was
// written: the outcome is unknown, and the same hold may repeat the Write.
//
// # Limits
//
// A process that is stopped in the middle of an access keeps the lock of the operating system
// until it goes on or dies. Until then, others wait; the end of their context ends the wait.
//
// The lock is flock(2), on Unix systems. On a local disk it ends exactly when its process has
// ended, or has closed it. On NFS it needs a server that keeps locks, and mounts without nolock
// or local_lock. There a client that is cut off loses its locks without notice, so an access
// that was under way may rename its file after another client's access: on NFS, filefence
// makes this case rare and does not prevent it. If that is too much, put the data where check
// and write are one step of the server: package sqlfence, redisfence or casfence.
//
// A program that writes the file without this package is not checked. On systems without
// flock every function returns errors.ErrUnsupported.
package filefence
