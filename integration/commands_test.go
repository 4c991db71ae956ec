package integration

import (
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli/root"
)

// libraryCommands are the files of libraries whose texts contain commands, each with the reason.
var libraryCommands = map[string]string{
	"edge/header.go":                 "the header of a generated file names the program that wrote the file",
	"internal/config/basic.go":       "the header of a configuration file names the program that reads the file",
	"internal/config/check.go":       "keys exist only in configuration files of the program",
	"internal/fleet/judge.go":        "a finding of a report has the next command, which status and the live page print",
	"internal/fleet/responder.go":    "service discovery names the job of a process",
	"internal/gateway/web/server.go": "a browser's login dialog names the gateway",
	"internal/page/lookup.go":        "the live page has a command to copy",
	"internal/roles/roles.go":        "describes users by the commands that they may run",
	"pipeline/follow.go":             "the registry stores the command that published a model",
}

// A caller in Go has no command line: errors and log messages of libraries contain no command
// of the program. The command line adds commands (adviseError in internal/cli/root).
func TestLibrariesNameNoCommands(t *testing.T) {
	call := regexp.MustCompile(`eusn-stream ([a-z][a-z-]*)`)
	commands := map[string]bool{}
	for _, c := range root.Command().Commands() {
		commands[c.Name()] = true
	}
	if !commands["run"] || !commands["doctor"] {
		t.Fatalf("commands %v, want run and doctor", commands)
	}
	used := map[string]bool{}
	for _, name := range tracked(t, "*.go") {
		top, _, _ := strings.Cut(name, "/")
		if strings.HasSuffix(name, "_test.go") || slices.Contains([]string{"cmd", "tools", "integration"}, top) ||
			strings.HasPrefix(name, "internal/cli/") || strings.HasPrefix(name, "internal/testing/") || strings.Contains(name, "/testdata/") {
			continue
		}
		for _, text := range literals(t, filepath.Join("..", name)) {
			for _, found := range call.FindAllStringSubmatch(text, -1) {
				switch {
				case !commands[found[1]]:
				case libraryCommands[name] != "":
					used[name] = true
				default:
					t.Errorf("%s: %q contains %q: return an error value, and add the command in internal/cli", name, text, found[0])
				}
			}
		}
	}
	for name := range libraryCommands {
		if !used[name] {
			t.Errorf("%s: no command: remove the exception", name)
		}
	}
}
