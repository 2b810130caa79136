//go:build !unix

package job

// closeOnExec does nothing: on these systems, files are inherited only on request.
func closeOnExec(int) {}
