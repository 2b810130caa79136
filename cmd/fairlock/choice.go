package main

import (
	"errors"
	"slices"
	"strings"
)

// choice is a flag that takes one of a few words.
type choice struct {
	value string
	of    []string
}

// String implements pflag.Value.
func (c *choice) String() string { return c.value }

// Set implements pflag.Value.
func (c *choice) Set(s string) error {
	if !slices.Contains(c.of, s) {
		return errors.New("must be " + c.words())
	}
	c.value = s
	return nil
}

// Type implements pflag.Value.
func (c *choice) Type() string { return "name" }

func (c *choice) words() string { return strings.Join(c.of, " or ") }

// choices is a flag that takes some of a few words, with commas between.
type choices struct {
	values []string
	of     []string
}

// String implements pflag.Value.
func (c *choices) String() string { return strings.Join(c.values, ",") }

// Set implements pflag.Value.
func (c *choices) Set(s string) error {
	for word := range strings.SplitSeq(s, ",") {
		if !slices.Contains(c.of, word) {
			return errors.New("must be of " + strings.Join(c.of, ", "))
		}
		c.values = append(c.values, word)
	}
	return nil
}

// Type implements pflag.Value.
func (c *choices) Type() string { return "names" }
