package main

import (
	"context"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"time"

	"github.com/fairlock/fairlock/robustness/report"
)

// about is what must be known of a run that begins now.
func (c *campaign) about(ctx context.Context) *report.About {
	return &report.About{
		Service: c.service.name, Lock: c.lock, Commit: commit(ctx),
		Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Began: time.Now().UTC().Truncate(time.Second),
	}
}

// commit is the one that is checked out here; "" if nobody can say. "go run" leaves
// it out of the binary.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// busy is how busy the machine was in the last minutes. Only Linux tells.
func busy() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}
