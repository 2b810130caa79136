package supervise

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Die ends this process by a signal, as a program without a handler ends. With group, the
// other processes of our group get the signal too. Die returns where the signal does not
// end a process: as process 1.
func Die(sig syscall.Signal, group bool) {
	runtime.LockOSThread()
	// Go's runtime gives SIGQUIT another meaning. All zero is the default action, without
	// flags and without a mask, in whichever order a machine has these.
	var action [64]byte
	_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&action)), 0, 8, 0, 0) //nolint:gosec // there is no other way
	_ = unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})                                                          // a core of ours would not help
	if group {
		_ = unix.Kill(0, sig)
	}
	_ = unix.Tgkill(unix.Getpid(), unix.Gettid(), sig)
}
