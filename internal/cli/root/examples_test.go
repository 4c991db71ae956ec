package root

import (
	"io"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/eusn-stream/eusn-stream/internal/cli"
)

// The files named in examples under demo-data are the files of a demo (TestDemo).
func TestExamplesNameTheDemosFiles(t *testing.T) {
	var text strings.Builder
	var visit func(c *cobra.Command)
	visit = func(c *cobra.Command) {
		text.WriteString(c.Example + "\n")
		for _, child := range c.Commands() {
			visit(child)
		}
	}
	visit(newRoot(&cli.App{Stdout: io.Discard, Stderr: io.Discard}))
	config, err := os.ReadFile("../../../configs/embedded.yaml")
	if err != nil {
		t.Fatal(err)
	}
	text.Write(config)
	named := regexp.MustCompile(`demo-data/\S+`).FindAllString(text.String(), -1)
	if len(named) < 4 {
		t.Errorf("the examples name only %v", named)
	}
	for _, path := range named {
		if path != "demo-data/machine.parquet" && path != "demo-data/machine.safetensors" {
			t.Errorf("an example names %s, which no demo writes", path)
		}
	}
}
