//go:build !unix

package job

// keep: files are not inherited here unless they are named.
func keep(int) {}
