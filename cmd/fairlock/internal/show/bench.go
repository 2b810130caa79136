package show

import (
	"fmt"
	"strconv"
	"time"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/screen"
	"github.com/fairlock/fairlock/internal/schema"
)

// Bench returns a measurement as lines of text.
func Bench(b schema.Bench) []screen.Line {
	must := func(n int64) screen.Span {
		if n != 0 {
			return screen.Span{Text: strconv.FormatInt(n, 10) + "  must be 0", Tone: screen.Bad}
		}
		return screen.Span{Text: "0", Tone: screen.Good}
	}
	row := func(what string, value screen.Span) screen.Line {
		return screen.Line{{Text: fmt.Sprintf("  %-18s", what), Tone: screen.Plain}, value}
	}
	plain := func(format string, args ...any) screen.Span { return screen.Span{Text: fmt.Sprintf(format, args...)} }
	return []screen.Line{
		screen.Text(screen.Head, "%s, %s, for %s, each hold %s", Count(b.Locks, "lock"), Count(b.Clients, "client"),
			time.Duration(b.Duration).Round(100*time.Millisecond), time.Duration(b.Hold)),
		row("acquisitions", plain("%d  %.0f/s", b.Acquisitions, b.PerSecond)),
		row("acquire", plain("%s", spread(b.Acquire))),
		row("hand-off", plain("%s", spread(b.HandOff))),
		row("fairness", plain("%.4f  Jain's index: 1 if all clients had equal shares", b.Fairness)),
		row("order violations", must(b.OrderViolations)),
		row("overlaps", must(b.Overlaps)),
		row("lost", plain("%d", b.Lost)),
	}
}

func spread(s schema.Spread) string {
	if s.Count == 0 {
		return "-"
	}
	return fmt.Sprintf("p50 %s  p99 %s  max %s", fine(s.P50), fine(s.P99), fine(s.Max))
}

// fine formats a short duration with three or four digits.
func fine(f schema.Fine) string {
	d := time.Duration(f)
	switch {
	case d < time.Millisecond:
		return d.Round(time.Microsecond).String()
	case d < 100*time.Millisecond:
		return d.Round(10 * time.Microsecond).String()
	}
	return d.Round(time.Millisecond).String()
}
