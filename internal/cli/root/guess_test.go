package root

import (
	"io"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
)

// Each guess leads to a command with these flags, and is not the name of a command itself.
func TestGuesses(t *testing.T) {
	root := newRoot(&cli.App{Stdout: io.Discard, Stderr: io.Discard})
	for word, command := range guesses {
		c, rest, err := root.Find(strings.Fields(command))
		if err == nil {
			err = c.ParseFlags(rest)
		}
		if err != nil || c == root || c.Flags().NArg() > 0 {
			t.Errorf("%s leads to %q: %v", word, command, err)
		}
		if c, rest, err := root.Find(strings.Fields(word)); err == nil && len(rest) == 0 {
			t.Errorf("%s is the command %q", word, c.CommandPath())
		}
	}
}
