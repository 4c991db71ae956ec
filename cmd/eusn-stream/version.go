package main

import (
	"context"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// buildInfo is what the binary knows of itself.
type buildInfo struct {
	Version    string `json:"version"`
	Commit     string `json:"commit,omitzero"`
	Dirty      bool   `json:"dirty,omitzero"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	Arithmetic int    `json:"arithmetic"` // of models: states of equal versions are equal
}

func readBuildInfo() buildInfo {
	b := buildInfo{
		Version: "devel", Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Arithmetic: reservoir.Arithmetic,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	if v := info.Main.Version; v != "" && v != "(devel)" {
		b.Version = v
	}
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			b.Commit = s.Value
		case "vcs.modified":
			b.Dirty = s.Value == "true"
		}
	}
	return b
}

// toolName goes into files as the program that made them.
func toolName() string { return "eusn-stream " + readBuildInfo().Version }

func newVersion(a *app) *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version of this build",
		Example: "  eusn-stream version --json",
		Args:    cobra.NoArgs,
		RunE: a.do(func(context.Context, []string) error {
			b := readBuildInfo()
			if a.json {
				return a.printJSON(b)
			}
			a.print("eusn-stream %s, %s, %s, arithmetic version %d", b.Version, b.Go, b.Platform, b.Arithmetic)
			if b.Commit != "" {
				a.print("commit %s%s", b.Commit, map[bool]string{true: ", with changes"}[b.Dirty])
			}
			return nil
		}),
	}
}
