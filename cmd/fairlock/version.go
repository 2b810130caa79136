package main

import (
	"fmt"
	"runtime/debug"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fairlock/fairlock/cmd/fairlock/internal/show"
	"github.com/fairlock/fairlock/internal/schema"
)

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "version",
		Short: "Print the version of this program",
		Args:  cobra.NoArgs,
	}
	out := a.output(cmd, "text", show.JSON, show.YAML, show.Lines)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		r := release(debug.ReadBuildInfo())
		if out.Objects() {
			return out.One(cmd.OutOrStdout(), r)
		}
		fmt.Fprintln(cmd.OutOrStdout(), versionLine(r))
		return nil
	}
	return cmd
}

// versionLine formats a release for people. --version prints it too.
func versionLine(r schema.Release) string {
	var line strings.Builder
	line.WriteString("fairlock " + r.Version)
	for _, s := range []string{r.Go, r.OS, r.Arch, r.Revision} {
		if s != "" {
			line.WriteString(" " + s)
		}
	}
	return line.String()
}

// release describes this program as the go command built it.
func release(info *debug.BuildInfo, ok bool) schema.Release {
	r := schema.NewRelease()
	if !ok { // built without module support
		r.Version, r.Go = "unknown", "unknown"
		return r
	}
	r.Version, r.Go = info.Main.Version, info.GoVersion
	if r.Version == "" {
		r.Version = "(devel)"
	}
	for _, x := range info.Settings {
		switch x.Key {
		case "GOOS":
			r.OS = x.Value
		case "GOARCH":
			r.Arch = x.Value
		case "vcs.revision":
			r.Revision = x.Value
		}
	}
	return r
}
