package cli

import (
	"runtime"
	"runtime/debug"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// BuildInfo is the build information in the binary.
type BuildInfo struct {
	Version    string `json:"version"`
	Commit     string `json:"commit,omitzero"`
	Dirty      bool   `json:"dirty,omitzero"`
	Go         string `json:"go"`
	Platform   string `json:"platform"`
	Arithmetic int    `json:"arithmetic"` // of models: states of equal versions are equal
}

// ReadBuildInfo reads the build information from the binary.
func ReadBuildInfo() BuildInfo {
	b := BuildInfo{
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

// ToolName is the program's name in files that it writes.
func ToolName() string { return "eusn-stream " + ReadBuildInfo().Version }
