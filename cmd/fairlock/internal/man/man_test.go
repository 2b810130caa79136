package man

import (
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
)

func TestTextIsNoRoffRequest(t *testing.T) {
	parent := &cobra.Command{Use: "lock", Run: func(*cobra.Command, []string) {}}
	cmd := &cobra.Command{
		Use: "it NAME", Short: "Lock it", Run: func(*cobra.Command, []string) {},
		Long: ".so /etc/passwd\n'tis a -b \\fB\n\n  .shown as\n\n  it is\n\nand on.",
	}
	cmd.Flags().StringP("out", "o", "", "into `FILE`")
	parent.AddCommand(cmd)

	assert.Equal(t, `.TH "LOCK\-IT" 1 "" "lock" "User Commands"
.SH NAME
lock\-it \- lock it
.SH SYNOPSIS
.B lock it NAME [flags]
.SH DESCRIPTION
\&.so /etc/passwd
\(aqtis a \-b \efB
.PP
.nf
  .shown as
.fi
.PP
.nf
  it is
.fi
.PP
and on.
.SH OPTIONS
.TP
.B \-h, \-\-help
help for it
.TP
.B \-o, \-\-out=FILE
into FILE
.SH SEE ALSO
.BR lock (1)
`, Page(cmd))
}
