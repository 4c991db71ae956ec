package root

import (
	"context"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
)

func newVersion(a *cli.App) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this build",
		Example: "  eusn-stream version --json",
		Args:    cobra.NoArgs,
		RunE: a.Do(func(context.Context, []string) error {
			b := cli.ReadBuildInfo()
			if a.JSON {
				return a.PrintJSON(b)
			}
			a.Print("eusn-stream %s, %s, %s, arithmetic version %d", b.Version, b.Go, b.Platform, b.Arithmetic)
			if b.Commit != "" {
				a.Print("commit %s%s", b.Commit, map[bool]string{true: "-dirty"}[b.Dirty])
			}
			return nil
		}),
	}
}
