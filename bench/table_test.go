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

func TestTablesHaveBothSidesInARow(t *testing.T) {
	etcd, r := serviceOf(t, "etcd"), newRecord()
	for contestant, rounds := range map[string][]float64{stand.Ours: {50, 60}, "Mutex": {100, 200}, unique: {7000, 7000}} {
		for _, v := range rounds {
			r.add(key{"history", stand.Single, 5, contestant, metricAfter}, micros, v)
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
	assert.ElementsMatch(t, []row{{ours: ours, theirs: theirs}, {theirs: only}}, rows(&etcd, r, "history"))

	s := scenario{name: "history", size: "past"}
	text := figuresTable(&etcd, r, s, nil).RenderCSV()
	assert.Contains(t, text, "single,5,a session each,\""+metricAfter+"\",55.0 µs (50.0 µs – 60.0 µs),150 µs (100 µs – 200 µs),0.40 (0.30 – 0.50) ×")
	assert.Contains(t, text, metricAfter+"\",,7.00 ms,")
	assert.Nil(t, figuresTable(&etcd, r, scenario{name: "line"}, nil))
}

func TestTablesHaveTheEarlierCommitBetweenOursAndThePeer(t *testing.T) {
	o := &old{Ref: "f35de04"}
	etcd, r := o.with(serviceOf(t, "etcd")), newRecord()
	add := func(contestant, metric string, u unit, rounds ...float64) {
		for _, v := range rounds {
			r.add(key{"churn", stand.Single, 2, contestant, metric}, u, v)
		}
	}
	add(stand.Ours, metricRate, perSec, 300, 150)
	add(stand.Ours, metricPerLock, count, 2, 2)
	add("fairlock f35de04", metricRate, perSec, 200, 100)
	add("fairlock f35de04", metricPerLock, count, 1, 1)
	add("Mutex", metricRate, perSec, 10, 10)
	add(stand.Bare, metricRate, perSec, 400, 400)

	text := figuresTable(&etcd, r, scenario{name: "churn", size: "contenders"}, o).RenderCSV()

	assert.Contains(t, text, "cluster,contenders,,,fairlock,f35de04,Mutex,fairlock : f35de04,fairlock : Mutex,\n")
	assert.Contains(t, text, "single,2,a session each,acquisitions,225/s (150/s – 300/s),150/s (100/s – 200/s),10.0/s,1.50 ×,22.5 (15.0 – 30.0) ×,\n")
	assert.Contains(t, text, "requests per acquisition,2.00,1.00,,2.00 ×,,worse in every round\n")
	assert.Contains(t, text, "single,2,bare requests,acquisitions,,,400/s,,,")
	assert.Equal(t, []ratio{
		{r.figures[0].key, "fairlock f35de04", []float64{1.5, 1.5}, false},
		{r.figures[0].key, "Mutex", []float64{30, 15}, false},
		{r.figures[1].key, "fairlock f35de04", []float64{2, 2}, true},
	}, quotients(&etcd, r))
}

func TestLowerRateIsWorse(t *testing.T) {
	figureOf := func(u unit, rounds ...float64) *figure { return &figure{Unit: u, Rounds: rounds} }
	for _, c := range []struct {
		row   row
		worse bool
	}{
		{row{ours: figureOf(perSec, 9, 9), old: figureOf(perSec, 10, 10)}, true},
		{row{ours: figureOf(perSec, 9, 11), old: figureOf(perSec, 10, 10)}, false},
		{row{ours: figureOf(micros, 9, 9), old: figureOf(micros, 10, 10)}, false},
		{row{ours: figureOf(micros, 11, 11), old: figureOf(micros, 10, 10)}, true},
		{row{ours: figureOf(micros, 11), old: figureOf(micros, 10)}, false},
		{row{ours: figureOf(micros, 11)}, false},
		{row{old: figureOf(perSec, 11)}, false},
	} {
		assert.Equal(t, c.worse, c.row.worse(), "%v", c.row)
	}
}
