package cli

import (
	"regexp"
	"runtime"
	"runtime/debug"

	"github.com/eusn-stream/eusn-stream/reservoir"
)

// Version is the version of the program. The commit of a release has the tag v<Version>.
const Version = "0.1.0"

// afterTag matches Go's version of a commit after a tag, with the commit's time and hash.
var afterTag = regexp.MustCompile(`[-.]0\.(\d{14})-([0-9a-f]{12})`)

// DescribeVersion returns Version, given Go's version of the module. The version of a
// commit after a release has the commit's time and hash: 0.1.0+20261130093000.b0bf30eaaad9.
// Without tags in the clone, the version is Version.
func DescribeVersion(module string) string {
	if m := afterTag.FindStringSubmatch(module); m != nil {
		return Version + "+" + m[1] + "." + m[2]
	}
	return Version
}

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
		Version: Version, Go: runtime.Version(),
		Platform: runtime.GOOS + "/" + runtime.GOARCH, Arithmetic: reservoir.Arithmetic,
	}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return b
	}
	b.Version = DescribeVersion(info.Main.Version)
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
