package screen

import (
	"bytes"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/internal/progtest"
)

func TestProgressBeginsAfterASecondAndIsErased(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var b progtest.Buffer
		p := startProgress(&b, func() int { return 12 }, "reading")
		time.Sleep(900 * time.Millisecond)
		synctest.Wait()
		assert.Empty(t, b.String())
		time.Sleep(200 * time.Millisecond)
		synctest.Wait()
		assert.Equal(t, "\r\x1b[Kreading, 1s", b.String())
		p.SetText("now\x1b")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, "\r\x1b[Kreading, 1s\r\x1b[Know?, 2s", b.String())
		p.SetText("writing a lot")
		time.Sleep(time.Second)
		synctest.Wait()
		assert.Equal(t, "\r\x1b[Kreading, 1s\r\x1b[Know?, 2s\r\x1b[Kwriting, 3s", b.String(), "a row that wraps would not be erased")
		seen := b.String()

		p.Clear()
		p.Close()
		p.Close()

		assert.Equal(t, seen+"\r\x1b[K", b.String())
	})
}

func TestThereIsNoProgressWithoutATerminal(t *testing.T) {
	var b bytes.Buffer
	p := NewProgress(&b, "reading")
	p.SetText("writing")
	p.Clear()
	p.Close()
	assert.Empty(t, b.String())
}
