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
