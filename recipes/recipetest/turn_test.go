package recipetest

import (
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/session/driver/drivertest"
)

func TestServicesShareCases(t *testing.T) {
	names := func(cases []testCase) (all []string) {
		for _, c := range cases {
			all = append(all, c.name)
		}
		return all
	}
	onOne, onThree := names(single())[0], names(replicated())[0]
	turn := func(name string) bool { return name == onOne || name == onThree }

	assert.Equal(t, append(names(replicated()), onOne), names(others(drivertest.Harness{NoForeign: true, Turn: turn})))
	assert.Equal(t, []string{onThree}, names(others(drivertest.Harness{Replicated: true, Turn: turn})))
	assert.Equal(t, names(append(replicated(), single()...)), names(others(drivertest.Harness{NoForeign: true})))
}
