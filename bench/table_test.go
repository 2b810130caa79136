package main

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/bench/stand"
)

func TestFormat(t *testing.T) {
	for _, c := range []struct {
		unit  unit
		value float64
		want  string
	}{
		{micros, 0, "0.00 µs"},
		{micros, 412.3, "412 µs"},
		{micros, 14_860, "14.9 ms"},
		{perSec, 2259.4, "2259/s"},
		{octets, 1023.6, "1024 B"},
		{count, 1.004, "1.00"},
		{count, -42.21, "-42.2"},
	} {
		assert.Equal(t, c.want, c.unit.format(c.value))
	}
	assert.Equal(t, "2.00 (1.00 – 3.00)", count.formatSpread(spread{2, 1, 3}))
	assert.Equal(t, "2.00", count.formatSpread(spread{2, 2, 2}))
}

func TestTablesPutBothSidesInARow(t *testing.T) {
	etcd, r := serviceOf(t, "etcd"), newRecord()
	for who, rounds := range map[string][]float64{stand.Ours: {50, 60}, "Mutex": {100, 200}, unique: {7000, 7000}} {
		for _, v := range rounds {
			r.add(key{"history", stand.Single, 5, who, metricAfter}, micros, v)
		}
	}
	ours, only := r.figures[0], r.figures[0]
	for _, f := range r.figures {
		switch f.Contestant {
		case stand.Ours:
			ours = f
		case unique:
			only = f
		}
	}
	theirs := r.versus(ours.key, "Mutex")
	assert.ElementsMatch(t, []row{{ours, theirs}, {nil, only}}, rows(&etcd, r, "history"))

	s := scenario{name: "history", size: "past"}
	text := figuresTable(&etcd, r, s).RenderCSV()
	assert.Contains(t, text, "single,5,a session each,\""+metricAfter+"\",55.0 µs (50.0 µs – 60.0 µs),150 µs (100 µs – 200 µs),0.40 (0.30 – 0.50) ×")
	assert.Contains(t, text, metricAfter+"\",,7.00 ms,")
	assert.Nil(t, figuresTable(&etcd, r, scenario{name: "line"}))
}
