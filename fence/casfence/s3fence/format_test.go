package s3fence

import (
	"math"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/fairlock/fairlock/fence"
	"github.com/fairlock/fairlock/fence/casfence"
)

func TestABodyHasTheDataAndItsMarks(t *testing.T) {
	for _, o := range []casfence.Object{
		{Data: []byte{}, Marks: fence.Marks{Shared: 7}},
		{Data: []byte("one\ntwo"), Written: true, Marks: fence.Marks{Exclusive: math.MaxInt64, Shared: 1}},
		{Data: format(casfence.Object{}), Written: true},
	} {
		body := format(o)

		assert.Equal(t, o, parse(body))
		assert.Equal(t, o.Data, Data(body))
	}
}

func TestABodyOfAnotherProgramIsDataWithoutMarks(t *testing.T) {
	for _, body := range []string{
		"", "\n", "data", "fairlock-fence/1 ", "fairlock-fence/1 exclusive=7 shared=0 written=true", "fairlock-fence/2 exclusive=7 shared=0 written=true\n",
		" fairlock-fence/1 exclusive=7 shared=0 written=true\n", "fairlock-fence/1 exclusive=x shared=0 written=true\n",
	} {
		assert.Equal(t, casfence.Object{Data: []byte(body), Written: true}, parse([]byte(body)), "%q", body)
	}
}
