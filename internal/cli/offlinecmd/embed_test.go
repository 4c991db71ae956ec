package offlinecmd_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/eusn-stream/eusn-stream/internal/cli"
	"github.com/eusn-stream/eusn-stream/internal/imports"
	"github.com/eusn-stream/eusn-stream/internal/testing/clitest"
	"github.com/eusn-stream/eusn-stream/offline/archive"
)

// someText is a folder of documents of two classes, each with its own word.
func someText(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	for part, n := range map[string]int{"TRAIN": 60, "TEST": 20} {
		var b strings.Builder
		for i := range n {
			fmt.Fprintf(&b, "%d\t1 %d %d %d\n", i%2, 4+i%7, 20+i%2, 4+i%5)
		}
		clitest.Write(t, filepath.Join(dir, "Text_"+part+".txt"), b.String())
	}
	return dir
}

func TestOfflineEmbed(t *testing.T) {
	source, dir := someText(t), t.TempDir()
	embedded := filepath.Join(dir, "text.parquet")
	args := []string{"offline", "paper", "embed", source, "--output", embedded, "--epochs", "3"}
	var r struct {
		Archive, Name        string
		Classes, Train, Test int
		imports.EmbedReport
	}
	clitest.Must(t, append(args, "--json")...).Parse(t, &r)
	if r.Archive != embedded || r.Name != "Text" || r.Classes != 2 || r.Train != 60 || r.Test != 20 || r.Learned != 40 || r.Validated != 20 || r.Last.Number != 3 {
		t.Errorf("embed --json gives %+v", r)
	}
	want, err := os.ReadFile(embedded)
	if err != nil {
		t.Fatal(err)
	}
	clitest.Exec(t, t.Context(), args...).Want(t, cli.ExitFailure, "was not changed", "--force")
	if r := clitest.Must(t, append(args, "--force", "--threads", "1")...); !strings.Contains(r.Out, "learned from 40, validated with 20") || !strings.Contains(r.Out, "taken") {
		t.Errorf("printed:\n%s", r.Out)
	}
	if got, _ := os.ReadFile(embedded); string(got) != string(want) {
		t.Error("other bytes on one thread")
	}

	// Token lists in an archive work, too, and the output can be benched.
	tokens, again := filepath.Join(dir, "tokens.parquet"), filepath.Join(dir, "again.parquet")
	clitest.Must(t, "import", source, "--output", tokens)
	clitest.Must(t, "offline", "paper", "embed", tokens, "--output", again, "--epochs", "3")
	a, b := dataset(t, embedded), dataset(t, again)
	if x, y := a.Fingerprint(archive.Train), b.Fingerprint(archive.Train); x != y {
		t.Errorf("%s from text, %s from its archive", x, y)
	}
	out := filepath.Join(dir, "r.jsonl")
	clitest.Must(t, "offline", "paper", "tables", embedded, "--models", "eusn", "--configurations", "2", "--draws", "1", "--output", out)
	clitest.Exec(t, t.Context(), "offline", "paper", "tables", tokens, "--output", out).Want(t, cli.ExitFailure, "token lists", "eusn-stream offline paper embed")

	for _, bad := range [][]string{{"--epochs", "0"}, {"--threads", "-1"}} {
		clitest.Exec(t, t.Context(), append([]string{"offline", "paper", "embed", source}, bad...)...).Want(t, cli.ExitUsage, bad[0])
	}
	clitest.Exec(t, t.Context(), "offline", "paper", "embed", tokens, "--output", tokens, "--force").Want(t, cli.ExitFailure, "is an input of this command")
	clitest.Exec(t, t.Context(), "offline", "paper", "embed", tokens, "--name", "X", "--output", filepath.Join(dir, "x")).Want(t, cli.ExitFailure, "--name")
	clitest.Exec(t, t.Context(), "offline", "paper", "embed", again, "--output", filepath.Join(dir, "x")).Want(t, cli.ExitFailure, "32 channels, want token lists")
	clitest.Exec(t, t.Context(), "offline", "paper", "embed", filepath.Join(dir, "none"), "--output", filepath.Join(dir, "x")).Want(t, cli.ExitFailure, "none", "try:")

	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	clitest.Exec(t, ctx, "offline", "paper", "embed", source, "--output", filepath.Join(dir, "x")).Want(t, cli.ExitInterrupted, "interrupted: nothing was written")
	clitest.Exec(t, ctx, "offline", "paper", "embed", tokens, "--output", filepath.Join(dir, "x")).Want(t, cli.ExitInterrupted, "interrupted: nothing was written")
	if left := clitest.Leftovers(t, dir, "text.parquet", "tokens.parquet", "again.parquet", "r.jsonl"); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

func dataset(t *testing.T, path string) *archive.Dataset {
	t.Helper()
	d, err := archive.ReadDataset(path)
	if err != nil {
		t.Fatal(err)
	}
	return d
}
