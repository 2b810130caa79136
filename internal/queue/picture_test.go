package queue

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"pgregory.net/rapid"

	"github.com/fairlock/fairlock/session/driver"
)

// pictureOf reads a picture: places, with | where there is a gap before one.
func pictureOf(text string) *picture {
	p := &picture{}
	gap := false
	for word := range strings.FieldsSeq(text) {
		if word == "|" {
			gap = true
			continue
		}
		var place int64
		_, _ = fmt.Sscan(word, &place)
		p.es, p.gaps = append(p.es, &driver.Entry{Ref: ref(place)}), append(p.gaps, gap)
		gap = false
	}
	return p
}

func (p *picture) String() string {
	var words []string
	for i, e := range p.es {
		if p.gaps[i] {
			words = append(words, "|")
		}
		words = append(words, fmt.Sprint(e.Place))
	}
	return strings.Join(words, " ")
}

func TestPictureTakesInAView(t *testing.T) {
	for _, c := range []struct{ known, view, want, gone string }{
		{"", "1 2 3", "1 2 3", ""},
		{"", "... 2 3", "| 2 3", ""},
		{"1 2 3", "1 3", "1 3", "2"},
		{"1 2 3", "3", "3", "1 2"},
		{"1 2 3", "... 3", "1 2 3", ""},
		{"1 2 3", "... 2 3", "1 2 3", ""},
		{"| 2 3", "... 2 3", "| 2 3", ""},
		{"1 | 3", "... 3", "1 | 3", ""},
		{"1 | 3", "... 2 3", "1 | 2 3", ""},
		{"1 | 3", "1 2 3", "1 2 3", ""},
		{"1 2 3 | 6 7", "1 3", "1 3 | 6 7", "2"},
		{"1 2 3 6 7", "... 3", "1 2 3 6 7", ""},
		{"1 | 4 5 7", "... 2 5", "1 | 2 5 7", "4"},
		{"1 2 3", "", "", "1 2 3"},
		{"1 2 3", "...", "1 2 3", ""},
	} {
		p, v := pictureOf(c.known), view(t, c.view)
		upto := int64(5)
		if n := len(v.Entries); n > 0 {
			upto = max(v.Entries[n-1].Place, 3)
		}
		lo, hi, gone := p.splice(v.Entries, v.Complete, upto)
		assert.Equal(t, c.want, p.String(), "%s and %q", c.known, c.view)
		assert.Len(t, p.es[lo:hi], len(v.Entries))
		assert.Equal(t, c.gone, (&picture{es: gone, gaps: make([]bool, len(gone))}).String(), "%s and %q", c.known, c.view)
	}
}

func TestPictureRemoves(t *testing.T) {
	for _, c := range []struct {
		known string
		i     int
		want  string
	}{
		{"1 2 3", 0, "2 3"},
		{"1 2 3", 1, "1 3"},
		{"| 1 2 3", 0, "| 2 3"},
		{"1 | 2 3", 1, "1 | 3"},
		{"1 | 2 3", 2, "1 | 2"},
		{"1 | 2", 1, "1"},
	} {
		p := pictureOf(c.known)
		p.remove(c.i)
		assert.Equal(t, c.want, p.String(), "%s without %d", c.known, c.i)
	}
}

func TestPictureForgets(t *testing.T) {
	even := func(e *driver.Entry) bool { return e.Place%2 == 0 }
	for _, c := range []struct {
		known string
		n     int
		want  string
	}{
		{"1 2 3", 2, "| 2 3"},
		{"2 3 4 5", 3, "2 | 4 5"},
		{"1 3 | 4", 2, "| 4"},
		{"| 2 | 4 5", 2, "| 2 | 4 5"},
		{"1 3 4 5 7", 4, "| 4 | 7"},
		{"1 2", 0, "1 2"},
	} {
		p := pictureOf(c.known)
		p.forget(c.n, even)
		assert.Equal(t, c.want, p.String(), "%s, of the first %d", c.known, c.n)
	}
}

func TestPictureShowsWhatIsAhead(t *testing.T) {
	p := pictureOf("| 1 2 | 4 5 7")
	es, complete := p.ahead(4)
	assert.Equal(t, []int64{4, 5}, []int64{es[0].Place, es[1].Place})
	assert.False(t, complete)
	p.cut(2)
	es, complete = p.ahead(2)
	assert.Len(t, es, 2)
	assert.True(t, complete)
	assert.Equal(t, -1, p.index(driver.Ref{Queue: "n", Key: "another program's", Place: 5}))
}

func TestPictureKeepsMarks(t *testing.T) {
	p := pictureOf("1 2")
	p.es[0].Marks = driver.MarkShared
	v := view(t, "1 2d 3")
	v.Entries[0].Data = []byte("of the owner")
	p.splice(v.Entries, true, 3)
	assert.Equal(t, driver.MarkShared, p.es[0].Marks)
	assert.Equal(t, driver.MarkShared, p.es[1].Marks)
	assert.Nil(t, p.es[2].Data)
}

// Whatever is learned, and however old it is, a picture lacks no entry where it shows no
// gap. So an entry that may hold by the picture may hold in the queue.
func TestPictureLacksNothingWhereItShowsNoGap(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		moments := [][]int64{nil} // what the queue has been like
		now := func() []int64 { return moments[len(moments)-1] }
		var p picture
		next := int64(1)
		for range rapid.IntRange(1, 40).Draw(t, "steps") {
			known := func() int { return rapid.IntRange(0, len(p.es)-1).Draw(t, "which") }
			switch op := rapid.SampledFrom([]string{"join", "join", "end", "view", "view", "event", "first", "forget"}).Draw(t, "op"); {
			case op == "join":
				moments = append(moments, append(slices.Clone(now()), next))
				next += rapid.Int64Range(1, 2).Draw(t, "step")
			case op == "end" && len(now()) > 0:
				one := rapid.SampledFrom(now()).Draw(t, "place")
				moments = append(moments, slices.DeleteFunc(slices.Clone(now()), func(o int64) bool { return o == one }))
			case op == "view" && next > 1:
				// It is never older than the entry that the read is about.
				upto := rapid.Int64Range(1, next-1).Draw(t, "upto")
				first := slices.IndexFunc(moments, func(m []int64) bool { return len(m) > 0 && m[len(m)-1] >= upto })
				if first < 0 {
					continue
				}
				m := rapid.SampledFrom(moments[first:]).Draw(t, "moment")
				end, _ := slices.BinarySearch(m, upto+1)
				from := rapid.IntRange(0, end).Draw(t, "from")
				var es []driver.Entry
				for _, place := range m[from:end] {
					es = append(es, driver.Entry{Ref: ref(place)})
				}
				p.splice(es, from == 0, upto)
			case op == "event" && len(p.es) > 0:
				if i := known(); !slices.Contains(now(), p.es[i].Place) {
					p.remove(i)
				}
			case op == "forget" && len(p.es) > 0:
				p.forget(known(), func(*driver.Entry) bool { return rapid.Bool().Draw(t, "keep") })
			case op == "first" && len(p.es) > 0:
				i := known()
				if place := p.es[i].Place; slices.ContainsFunc(moments, func(m []int64) bool { return len(m) > 0 && m[0] == place }) {
					p.cut(i)
				}
			}
			checkPicture(t, &p, now())
		}
	})
}

func checkPicture(t *rapid.T, p *picture, queue []int64) {
	for i, e := range p.es {
		before := int64(0)
		if i > 0 {
			before = p.es[i-1].Place
		}
		if before >= e.Place {
			t.Fatalf("out of order: %s", p)
		}
		for _, place := range queue {
			if !p.gaps[i] && place > before && place < e.Place {
				t.Fatalf("%s lacks %d", p, place)
			}
		}
	}
}
