package waits

import (
	"compress/gzip"
	"encoding/binary"
	"io"
	"strings"
	"time"
)

// The fields of a profile that are written here, by their numbers in profile.proto of
// github.com/google/pprof. The library that writes them would be a dependency of every
// program that uses this package, and these are all that it would write.
const (
	profileSampleType = 1 // ValueType
	profileSample     = 2
	profileLocation   = 4
	profileFunction   = 5
	profileString     = 6
	profileTime       = 9
	profileDefault    = 14 // the sample type that is shown first

	typeType, typeUnit                       = 1, 2
	sampleLocation, sampleValue, sampleLabel = 1, 2, 3
	labelKey, labelString                    = 1, 2
	locationID, locationLine                 = 1, 4
	lineFunction, lineLine                   = 1, 2

	functionID, functionName, functionSystem, functionFile = 1, 2, 3, 4
)

// message is a protobuf message.
type message []byte

// number adds a field that is a number. 0 is the default and not written.
func (m *message) number(field int, v int64) {
	if v != 0 {
		*m = binary.AppendUvarint(*m, uint64(field)<<3)
		*m = binary.AppendUvarint(*m, uint64(v))
	}
}

// bytes adds a field that is a string, or another message.
func (m *message) bytes(field int, b []byte) {
	*m = binary.AppendUvarint(*m, uint64(field)<<3|2)
	*m = binary.AppendUvarint(*m, uint64(len(b)))
	*m = append(*m, b...)
}

// profile is a profile that is being written.
type profile struct {
	message
	texts     map[string]int64
	functions map[[2]string]int64
	locations map[location]int64
}

// location is a line of a function.
type location struct {
	function int64
	line     int
}

// text returns the number of a string, which it adds when it is new.
func (p *profile) text(s string) int64 {
	s = strings.ToValidUTF8(s, "\uFFFD")
	n, known := p.texts[s]
	if !known {
		n = int64(len(p.texts))
		p.texts[s] = n
		p.bytes(profileString, []byte(s))
	}
	return n
}

// function returns the number of a function, which it adds when it is new.
func (p *profile) function(name, file string) int64 {
	id, known := p.functions[[2]string{name, file}]
	if !known {
		id = int64(len(p.functions) + 1)
		p.functions[[2]string{name, file}] = id
		var m message
		m.number(functionID, id)
		m.number(functionName, p.text(name))
		m.number(functionSystem, p.text(name))
		m.number(functionFile, p.text(file))
		p.bytes(profileFunction, m)
	}
	return id
}

// location returns the number of a line, which it adds when it is new.
func (p *profile) location(l location) int64 {
	id, known := p.locations[l]
	if !known {
		id = int64(len(p.locations) + 1)
		p.locations[l] = id
		var line, m message
		line.number(lineFunction, l.function)
		line.number(lineLine, int64(l.line))
		m.number(locationID, id)
		m.bytes(locationLine, line)
		p.bytes(profileLocation, m)
	}
	return id
}

// sampleType adds a kind of value that each sample has.
func (p *profile) sampleType(name, unit string) {
	var m message
	m.number(typeType, p.text(name))
	m.number(typeUnit, p.text(unit))
	p.bytes(profileSampleType, m)
}

// sample adds a group.
func (p *profile) sample(g *group, now time.Time) {
	first := &g.waits[0]
	var m message
	for _, f := range frames(first.stack) {
		m.number(sampleLocation, p.location(location{p.function(function(f), f.File), f.Line}))
	}
	var waited time.Duration
	for i := range g.waits {
		waited += g.waits[i].waited(now)
	}
	var values message
	values = binary.AppendUvarint(values, uint64(len(g.waits)))
	values = binary.AppendUvarint(values, uint64(waited))
	m.bytes(sampleValue, values)
	labels := append([]string{"lock", first.name, "kind", first.kind}, first.labels...)
	for i := 0; i < len(labels); i += 2 {
		var l message
		l.number(labelKey, p.text(labels[i]))
		l.number(labelString, p.text(labels[i+1]))
		m.bytes(sampleLabel, l)
	}
	p.bytes(profileSample, m)
}

// profile writes the snapshot as a profile.
func (s *snapshot) profile(w io.Writer, now time.Time) error {
	p := &profile{texts: map[string]int64{}, functions: map[[2]string]int64{}, locations: map[location]int64{}}
	p.text("") // the first string is empty
	p.sampleType("waiters", "count")
	p.sampleType("delay", "nanoseconds")
	for _, g := range s.groups() {
		p.sample(g, now)
	}
	p.number(profileTime, now.UnixNano())
	p.number(profileDefault, p.text("delay"))
	zip := gzip.NewWriter(w)
	if _, err := zip.Write(p.message); err != nil {
		return err //nolint:wrapcheck // the client is gone
	}
	return zip.Close() //nolint:wrapcheck // the same
}
