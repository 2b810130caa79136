// Package view makes the text that a demonstration shows: the live picture, the plain
// lines for an output that is no terminal, and the summary. All of it is pure.
package view

import (
	"fmt"
	"time"
)

// seconds formats a duration in seconds.
func seconds(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// millis formats a short duration in milliseconds.
func millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	switch {
	case ms < 1:
		return fmt.Sprintf("%.2f ms", ms)
	case ms < 10:
		return fmt.Sprintf("%.1f ms", ms)
	}
	return fmt.Sprintf("%.0f ms", ms)
}
