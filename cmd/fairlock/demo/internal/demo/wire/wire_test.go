package wire

import (
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestWrittenEventsAreReadOneByOne(t *testing.T) {
	r, w := io.Pipe()
	out := NewWriter(w)
	sent := []Event{
		{Kind: Ready, At: 1},
		{Kind: Granted, At: 2, Token: 3, Work: time.Second},
		{Kind: Late, At: 4, Token: 3, Valid: 5, Err: "lock lost: \"x\"\n"},
	}
	var wg sync.WaitGroup
	wg.Go(func() {
		for _, e := range sent {
			assert.NoError(t, out.Write(e))
		}
		_ = w.Close()
	})

	var got []Event
	err := Each(r, func(e Event) { got = append(got, e) })
	wg.Wait()

	require.NoError(t, err)
	assert.Equal(t, sent, got)
}

func TestHalfAnEventIsAnError(t *testing.T) {
	var got []Event
	err := Each(strings.NewReader(`{"kind":"ready"}`+"\n"+`{"kind":"gran`), func(e Event) { got = append(got, e) })

	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	assert.Equal(t, []Event{{Kind: Ready}}, got)
}
