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

// about returns the description of a run that begins now.
func (c *campaign) about(ctx context.Context) *report.About {
	return &report.About{
		Service: c.service.name, Lock: c.lock, Commit: commit(ctx),
		Go: runtime.Version(), System: runtime.GOOS + "/" + runtime.GOARCH, CPUs: runtime.NumCPU(),
		Began: time.Now().UTC().Truncate(time.Second),
	}
}

// commit returns the commit that is checked out here, or "" if git fails. The binary
// itself does not have it, because "go run" leaves it out.
func commit(ctx context.Context) string {
	out, err := exec.CommandContext(ctx, "git", "describe", "--always", "--dirty", "--exclude=*").Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// loadAverage returns the load averages of the machine, or "unknown" if this is not Linux.
func loadAverage() string {
	text, err := os.ReadFile("/proc/loadavg")
	fields := strings.Fields(string(text))
	if err != nil || len(fields) < 3 {
		return "unknown"
	}
	return strings.Join(fields[:3], " ")
}
